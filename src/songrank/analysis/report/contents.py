"""The contents of a report; a part that cannot be made has the reason instead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch

from songrank.analysis.baseline_methods import baseline_methods
from songrank.analysis.finished_runs import FinishedRun, Method, check_lists, find_runs, group_runs, read_run
from songrank.analysis.method_comparison import MethodComparison, common_metrics, compare_methods
from songrank.analysis.report.bins import Bin, bin_values, query_sizes
from songrank.analysis.report.curves import History, Panel, make_panels, read_history
from songrank.analysis.report.queries import QueryRanker, RankedQuery, best_and_worst
from songrank.analysis.report.remembered import Remembered, read_memory
from songrank.core.devices import choose_device
from songrank.core.errors import DataError, UserError
from songrank.core.text import UNITS
from songrank.data import Dataset, open_dataset
from songrank.data.dataset import SPLITS
from songrank.io.json_files import read_json
from songrank.serving.open import open_model
from songrank.training.run import Run
from songrank.training.run_directory import RunDirectory
from songrank.training.trainer.batch_adapters import BatchAdapter
from songrank.training.trainer.history_adapters import make_adapter

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Missing:
    """The reason why a part of the report is missing, in one line."""

    why: str


def attempt(make: Callable[P, T], *args: P.args, **options: P.kwargs) -> T | Missing:
    """The result of a call, or the reason why it failed."""
    try:
        return make(*args, **options)
    except UserError as error:
        return Missing(str(error))


@dataclass(frozen=True, eq=False)
class ReportedRun:
    """A run directory, read as far as possible; ``unread`` is the reason why the reported split is missing."""

    path: Path
    config: dict[str, Any]
    notes: dict[str, Any]
    history: History | Missing
    evaluations: dict[str, FinishedRun]
    unread: Missing | None

    @property
    def task(self) -> str | None:
        """The task in ``model.json``; None if it is missing."""
        found = attempt(read_json, self.path / "model.json")
        task = None if isinstance(found, Missing) else found.get("task")
        return task if isinstance(task, str) else None

    @property
    def seed(self) -> int:
        """The random seed of the training."""
        return int(self.config["seed"])


@dataclass(frozen=True)
class Sizes:
    """A metric by query size: the name of the size, and the bins of each method by label."""

    metric: str
    what: str
    bins: dict[str, list[Bin]]


@dataclass(frozen=True)
class Memory:
    """Memory of a loss beside exact values; with ``moving`` (random) windows, these are of another window."""

    loss: str
    step: int
    seed: int
    tables: list[Remembered]
    moving: bool


@dataclass(frozen=True)
class Extremes:
    """The queries with the best and the worst values in one run."""

    metric: str
    seed: int
    best: list[RankedQuery]
    worst: list[RankedQuery]


@dataclass(frozen=True, eq=False)
class Group:
    """The runs of a method in order of seeds, and details of its first run."""

    label: str
    runs: tuple[ReportedRun, ...]
    data: Dataset | Missing
    memory: Memory | Missing
    extremes: Extremes | Missing


@dataclass(frozen=True, eq=False)
class Contents:
    """The contents of the page; a single run has no comparison."""

    split: str
    groups: tuple[Group, ...]
    comparison: MethodComparison | None
    curves: list[Panel] | Missing
    sizes: Sizes | Missing

    @property
    def runs(self) -> list[ReportedRun]:
        """All runs, method by method."""
        return [run for group in self.groups for run in group.runs]

    @property
    def unit(self) -> str:
        """What queries are called in the task."""
        return UNITS.get(self.runs[0].task or "", "queries")

    @property
    def labels(self) -> list[str]:
        """The labels of the methods."""
        return [group.label for group in self.groups]


def gather(
    places: Sequence[Path],
    *,
    split: str = "test",
    data: Path | None = None,
    baseline: str | None = None,
    device: str = "auto",
    baseline_models: Sequence[str] = (),
    methods: Sequence[Method] | None = None,
) -> Contents:
    """Read runs and their data sets, if they exist; the arguments are those of ``write_report``."""
    choose_device(device)
    if split not in SPLITS:
        raise UserError(f"split is {split!r}; expected one of {', '.join(SPLITS)}")
    paths = find_runs(places)
    if baseline is not None and len(paths) == 1 and not baseline_models and methods is None:
        raise UserError(f"baseline is {baseline!r}, but there is only one run; pass the runs to compare")
    runs = {path: _read_folder(path, split, finished=len(paths) > 1) for path in paths}
    measured = [run.evaluations[split] for run in runs.values() if split in run.evaluations]
    comparison, named = None, {paths[0].resolve().name: tuple(runs.values())}
    if measured:
        trained = group_runs(measured) if methods is None else [method for method in methods if not method.measured]
        names = common_metrics(measured)
        beside = baseline_methods(baseline_models, trained, split, names, data=data) if baseline_models else []
        compared = [*trained, *beside] if methods is None else methods
        if len(compared) > 1 or len(measured) > 1:
            comparison = compare_methods(compared, baseline=baseline)
        ordered = {method.label: sorted(method.runs, key=lambda run: run.seed) for method in trained}
        named = {label: tuple(runs[run.path] for run in own) for label, own in ordered.items()}
    elif baseline_models:
        raise UserError(f"{paths[0]} has no evaluation of the {split} split to compare baseline models with")
    opened = {label: attempt(_open_data, own[0], split, data) for label, own in named.items()}
    if data is not None and all(isinstance(found, Missing) for found in opened.values()):
        _open_data(next(iter(named.values()))[0], split, data)
    groups = tuple(_group(label, own, opened[label], split, device) for label, own in named.items())
    curves, sizes = attempt(_curves, groups), attempt(_sizes, groups, split)
    return Contents(split, groups, comparison, curves, sizes)


def _read_folder(path: Path, split: str, *, finished: bool) -> ReportedRun:
    """Read a run directory; a missing evaluation on ``split`` is an error only if the run must be ``finished``."""
    evaluations, unread = {}, None
    for name in dict.fromkeys((split, "test", "validation")):
        try:
            evaluations[name] = read_run(path, name)
        except DataError as error:
            if (name == split and finished) or (path / "evaluation" / f"{name}.json").exists():  # or it is damaged
                raise
            unread = Missing(str(error)) if name == split else unread
    directory = RunDirectory(path)
    notes = attempt(directory.notes)
    first = next(iter(evaluations.values()), None)
    config = first.config if first is not None else directory.recipe().model_dump(mode="json")
    history = attempt(read_history, path)
    return ReportedRun(path, config, {} if isinstance(notes, Missing) else notes, history, evaluations, unread)


def _open_data(run: ReportedRun, split: str, data: Path | None) -> Dataset:
    """The data set of a run at its recorded or given path; a ``UserError`` if it has changed."""
    dataset = open_dataset(data if data is not None else Path(str(run.config.get("data", ""))))
    RunDirectory(run.path).check_data(dataset)
    if split not in dataset:
        raise DataError(f"has no {split} split", f"it has {', '.join(dataset)}", file=str(dataset.path))
    if split in run.evaluations:
        check_lists(run.evaluations[split], dataset, split)
    return dataset


def _rebuild(run: ReportedRun, dataset: Dataset, device: str) -> Run:
    """The run with model, losses and data adapter as before its first step; its directory is not changed."""
    if not (run.path / "run.json").exists():
        raise UserError("the directory was not written by `songrank train`, so its model cannot be rebuilt")
    directory = RunDirectory(run.path)
    recipe = directory.recipe().model_copy(update={"device": device, "members": None, "auto": None})
    with torch.random.fork_rng(devices=[]):
        return Run(directory, recipe, dataset)


def _group(label: str, runs: tuple[ReportedRun, ...], data: Dataset | Missing, split: str, device: str) -> Group:
    first = runs[0]
    if first.config.get("blend") and not isinstance(data, Missing):
        memory = Missing("a blend is not trained itself; its members have memories")
        return Group(label, runs, data, memory, attempt(_extremes, data, choose_device(device), first, split))
    run = data if isinstance(data, Missing) else attempt(_rebuild, first, data, device)
    if isinstance(run, Missing):
        return Group(label, runs, data, memory=run, extremes=run)
    extremes = attempt(_extremes, run.dataset, run.trainer.device, first, split, run.trainer.adapter)
    return Group(label, runs, data, attempt(_memory, run, first.seed), extremes)


def _memory(run: Run, seed: int) -> Memory:
    loss, step, tables = read_memory(run)
    return Memory(loss, step, seed, tables, moving=run.recipe.batch.windows == "random")


def _extremes(
    dataset: Dataset, device: torch.device, reported: ReportedRun, split: str, adapter: BatchAdapter | None = None
) -> Extremes:
    if reported.unread is not None:
        raise UserError(reported.unread.why)
    measured = reported.evaluations[split]
    metric = next(iter(measured.metrics))
    values = measured.per_query[metric]
    model = open_model(reported.path, device).model
    adapter = make_adapter(dataset, device, model) if adapter is None else adapter
    ranker = QueryRanker(model, adapter, dataset, split, measured.policies["ties"])
    both = best_and_worst(values, dataset.relevance(split).num_relevant, ranker.first_rank)
    best, worst = ([ranker.rank(query, float(values[query])) for query in numbers] for numbers in both)
    return Extremes(metric, reported.seed, best, worst)


def _curves(groups: Sequence[Group]) -> list[Panel]:
    methods = {
        group.label: [(run.config, run.history) for run in group.runs if not isinstance(run.history, Missing)]
        for group in groups
    }
    if not any(methods.values()):
        first = groups[0].runs[0].history
        raise UserError(first.why if isinstance(first, Missing) else "")
    return make_panels({label: runs for label, runs in methods.items() if runs})


def _sizes(groups: Sequence[Group], split: str) -> Sizes:
    unread = [next((run.unread.why for run in group.runs if run.unread is not None), "") for group in groups]
    known = [group for group, why in zip(groups, unread, strict=True) if not why]
    measured = {group.label: [run.evaluations[split] for run in group.runs] for group in known}
    if not measured:
        raise UserError(unread[0])
    everything = [run for runs in measured.values() for run in runs]
    if len({run.lists_sha256 for run in everything}) > 1:
        raise UserError("the runs are on several data sets; report on the runs of one data set")
    dataset = next((group.data for group in groups if isinstance(group.data, Dataset)), None)
    if dataset is None:
        assert isinstance(groups[0].data, Missing)
        raise UserError(groups[0].data.why)
    common = common_metrics(everything)
    metric = next((name for name in common if name.startswith("ndcg")), common[0])
    what, sizes = query_sizes(dataset, split)
    values = {label: torch.stack([run.per_query[metric] for run in runs]) for label, runs in measured.items()}
    return Sizes(metric, what, {label: bin_values(own, sizes) for label, own in values.items()})
