"""All that a report shows, gathered before anything is drawn; a part that cannot be made says why instead."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from songrank.analysis.finished_runs import find_runs, group_runs
from songrank.analysis.method_comparison import MethodComparison, common_metrics, compare_methods
from songrank.analysis.report.bins import Bin, bin_values, query_sizes
from songrank.analysis.report.curves import Panel, make_panels
from songrank.analysis.report.queries import QueryRanker, RankedQuery, best_and_worst
from songrank.analysis.report.remembered import Remembered, read_memory
from songrank.analysis.report.runs import Missing, ReportedRun, attempt, open_data, read_folder, rebuild
from songrank.core.devices import choose_device
from songrank.core.errors import UserError
from songrank.data import Dataset
from songrank.data.dataset import SPLITS
from songrank.serving.open import open_model
from songrank.training.run import Run


@dataclass(frozen=True)
class Sizes:
    """A metric by the size of queries: what that is in words, and the bins of each method by its label."""

    metric: str
    what: str
    bins: dict[str, list[Bin]]


@dataclass(frozen=True)
class Memory:
    """What a loss remembers, beside the truth; with ``moving`` (random) windows that truth is of another window."""

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
    """The runs of one method in order of seeds, and what was found of its first run."""

    label: str
    runs: tuple[ReportedRun, ...]
    data: Dataset | Missing
    memory: Memory | Missing
    extremes: Extremes | Missing


@dataclass(frozen=True, eq=False)
class Contents:
    """Everything that the page shows; for one run there is no comparison."""

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
    def labels(self) -> list[str]:
        """Of the methods."""
        return [group.label for group in self.groups]


def gather(
    places: Sequence[Path],
    *,
    split: str = "test",
    data: Path | None = None,
    baseline: str | None = None,
    device: str = "auto",
) -> Contents:
    """Read runs and whatever is left of their data; the arguments are those of ``write_report``."""
    choose_device(device)
    if split not in SPLITS:
        raise UserError(f"split is {split!r}; expected one of {', '.join(SPLITS)}")
    paths = find_runs(places)
    if baseline is not None and len(paths) == 1:
        raise UserError(f"baseline is {baseline!r}, and there is one run; give those to compare it with")
    runs = {path: read_folder(path, split, finished=len(paths) > 1) for path in paths}
    measured = [run.evaluations[split] for run in runs.values() if split in run.evaluations]
    comparison, named = None, {paths[0].resolve().name: tuple(runs.values())}
    if measured:
        methods = group_runs(measured)
        comparison = compare_methods(methods, baseline=baseline) if len(measured) > 1 else None
        ordered = {method.label: sorted(method.runs, key=lambda run: run.seed) for method in methods}
        named = {label: tuple(runs[run.path] for run in own) for label, own in ordered.items()}
    opened = {label: attempt(partial(open_data, own[0], split, data)) for label, own in named.items()}
    if data is not None and all(isinstance(found, Missing) for found in opened.values()):
        open_data(next(iter(named.values()))[0], split, data)
    groups = tuple(_group(label, own, opened[label], split, device) for label, own in named.items())
    curves, sizes = attempt(partial(_curves, groups)), attempt(partial(_sizes, groups, split))
    return Contents(split, groups, comparison, curves, sizes)


def _group(label: str, runs: tuple[ReportedRun, ...], data: Dataset | Missing, split: str, device: str) -> Group:
    first = runs[0]
    run = data if isinstance(data, Missing) else attempt(partial(rebuild, first, data, device))
    if isinstance(run, Missing):
        return Group(label, runs, data, memory=run, extremes=run)
    memory, extremes = attempt(partial(_memory, run, first.seed)), attempt(partial(_extremes, run, first, split))
    return Group(label, runs, data, memory, extremes)


def _memory(run: Run, seed: int) -> Memory:
    loss, step, tables = read_memory(run)
    return Memory(loss, step, seed, tables, moving=run.recipe.batch.windows == "random")


def _extremes(run: Run, reported: ReportedRun, split: str) -> Extremes:
    if reported.unread is not None:
        raise UserError(reported.unread.why)
    measured = reported.evaluations[split]
    metric = next(iter(measured.metrics))
    values = measured.per_query[metric]
    model = open_model(reported.path, run.trainer.device).model
    ranker = QueryRanker(model, run.trainer.adapter, run.dataset, split, measured.policies["ties"])
    both = best_and_worst(values, run.dataset.relevance(split).num_relevant)
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
        raise UserError("the runs are on several data sets; make a report of the runs on one of them")
    dataset = next((group.data for group in groups if isinstance(group.data, Dataset)), None)
    if dataset is None:
        assert isinstance(groups[0].data, Missing)
        raise UserError(groups[0].data.why)
    common = common_metrics(everything)
    metric = next((name for name in common if name.startswith("ndcg")), common[0])
    what, sizes = query_sizes(dataset, split)
    values = {label: torch.stack([run.per_query[metric] for run in runs]) for label, runs in measured.items()}
    return Sizes(metric, what, {label: bin_values(own, sizes) for label, own in values.items()})
