"""All that a report shows, gathered before anything is drawn; a part that cannot be made says why instead."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from songrank.analysis.finished_runs import find_runs, group_runs
from songrank.analysis.method_comparison import MethodComparison, compare_methods
from songrank.analysis.report.bins import Bin, bin_values, query_sizes
from songrank.analysis.report.curves import Panel, make_panels, read_history
from songrank.analysis.report.queries import QueryRanker, RankedQuery, best_and_worst
from songrank.analysis.report.remembered import Remembered, read_memory
from songrank.analysis.report.runs import Missing, Subject, open_data, read_subject, rebuild
from songrank.core.devices import choose_device
from songrank.core.errors import UserError
from songrank.data import Dataset
from songrank.data.dataset import SPLITS
from songrank.serving.open import open_model
from songrank.training.run import Run

Found = TypeVar("Found")


@dataclass(frozen=True)
class Sizes:
    """A metric by the size of queries."""

    metric: str
    what: str
    """The size, in words."""
    bins: dict[str, list[Bin]]
    """By label of the method."""


@dataclass(frozen=True)
class Memory:
    """What a loss remembers, beside the truth."""

    loss: str
    step: int
    seed: int
    tables: list[Remembered]
    moving: bool = False
    """Whether entries were read in random windows, so that the truth is that of another one."""


@dataclass(frozen=True)
class Extremes:
    """The queries that fared best and worst in one run."""

    metric: str
    seed: int
    best: list[RankedQuery]
    worst: list[RankedQuery]


@dataclass(frozen=True, eq=False)
class Group:
    """The runs of one method in order of seeds, and what was found of its first run."""

    label: str
    subjects: tuple[Subject, ...]
    data: Dataset | Missing
    memory: Memory | Missing
    extremes: Extremes | Missing


@dataclass(frozen=True, eq=False)
class Contents:
    """Everything that the page shows."""

    split: str
    groups: tuple[Group, ...]
    comparison: MethodComparison | None
    """None for one run."""
    curves: list[Panel] | Missing
    sizes: Sizes | Missing

    @property
    def subjects(self) -> list[Subject]:
        """All runs, method by method."""
        return [subject for group in self.groups for subject in group.subjects]


def gather(
    places: Sequence[Path],
    *,
    split: str = "test",
    data: Path | None = None,
    baseline: str | None = None,
    device: str = "auto",
) -> Contents:
    """Read runs and whatever is left of their data.

    Args:
        places: folders of runs, or folders of such folders. Several runs have to be finished.
        split: whose evaluation the report is about.
        data: where the data set is now, if it was moved.
        baseline: label or run of the method that others are compared with; the first if not given.
        device: what models are scored on.

    """
    choose_device(device)
    if split not in SPLITS:
        raise UserError(f"split is {split!r}; expected one of {', '.join(SPLITS)}")
    paths = find_runs(places)
    if baseline is not None and len(paths) == 1:
        raise UserError(f"baseline is {baseline!r}, and there is one run; give those to compare it with")
    subjects = {path: read_subject(path, split, finished=len(paths) > 1) for path in paths}
    measured = [found.evaluations[split] for found in subjects.values() if split in found.evaluations]
    comparison, named = None, [(paths[0].resolve().name, tuple(subjects.values()))]
    if measured:
        methods = group_runs(measured)
        comparison = compare_methods(methods, baseline=baseline) if len(measured) > 1 else None
        named = [
            (method.label, tuple(subjects[run.path] for run in sorted(method.runs, key=lambda run: run.seed)))
            for method in methods
        ]
    opened = [_attempt(lambda s=group[0]: open_data(s, split, data)) for _, group in named]  # type: ignore[misc]
    if data is not None and all(isinstance(found, Missing) for found in opened):
        open_data(named[0][1][0], split, data)
    groups = tuple(
        _group(label, group, dataset, split, device) for (label, group), dataset in zip(named, opened, strict=True)
    )
    return Contents(
        split, groups, comparison, _attempt(lambda: _curves(groups)), _attempt(lambda: _sizes(groups, split))
    )


def _attempt(make: Callable[[], Found]) -> Found | Missing:
    try:
        return make()
    except UserError as error:
        return Missing(str(error))


def _group(label: str, subjects: tuple[Subject, ...], data: Dataset | Missing, split: str, device: str) -> Group:
    first = subjects[0]
    run = data if isinstance(data, Missing) else _attempt(lambda: rebuild(first, data, device))
    if isinstance(run, Missing):
        return Group(label, subjects, data, memory=run, extremes=run)
    seed = int(first.config["seed"])
    extremes: Extremes | Missing | None = first.unread
    if extremes is None:
        extremes = _attempt(lambda: _extremes(run, first, split, seed))
    return Group(label, subjects, data, _attempt(lambda: _memory(run, seed)), extremes)


def _memory(run: Run, seed: int) -> Memory:
    loss, step, tables = read_memory(run)
    return Memory(loss, step, seed, tables, run.recipe.batch.windows == "random")


def _extremes(run: Run, subject: Subject, split: str, seed: int) -> Extremes:
    measured = subject.evaluations[split]
    metric = next(iter(measured.metrics))
    values = measured.per_query[metric]
    relevance = run.dataset.relevance(split)
    best, worst = best_and_worst(values, relevance.num_relevant)
    model = open_model(subject.path, run.trainer.device).model
    ranker = QueryRanker(model, run.trainer.feed, run.dataset, split, measured.policies["ties"])

    def rank(numbers: list[int]) -> list[RankedQuery]:
        return [ranker.rank(query, float(values[query])) for query in numbers]

    return Extremes(metric, seed, rank(best), rank(worst))


def _curves(groups: Sequence[Group]) -> list[Panel]:
    def histories(subjects: Sequence[Subject]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
        found = [(subject.config, _attempt(lambda s=subject: read_history(s.path))) for subject in subjects]  # type: ignore[misc]
        return [(config, history) for config, history in found if not isinstance(history, Missing)]

    methods = [(group.label, histories(group.subjects)) for group in groups]
    methods = [(label, runs) for label, runs in methods if runs]
    if not methods:
        read_history(groups[0].subjects[0].path)
    return make_panels(methods)


def _sizes(groups: Sequence[Group], split: str) -> Sizes:
    measured = [[subject.evaluations[split] for subject in group.subjects] for group in groups if not _unread(group)]
    if not measured:
        raise UserError(_unread(groups[0]))
    everything = [run for runs in measured for run in runs]
    if len({run.lists_sha256 for run in everything}) > 1:
        raise UserError("the runs are on several data sets; make a report of the runs on one of them")
    dataset = next((group.data for group in groups if isinstance(group.data, Dataset)), None)
    if dataset is None:
        assert isinstance(groups[0].data, Missing)
        raise UserError(groups[0].data.why)
    common = [metric for metric in everything[0].metrics if all(metric in run.metrics for run in everything)]
    metric = next((name for name in common if name.startswith("ndcg")), common[0])
    what, sizes = query_sizes(dataset, split)
    bins = {
        group.label: bin_values(torch.stack([run.per_query[metric] for run in runs]), sizes)
        for group, runs in zip(groups, measured, strict=True)
    }
    return Sizes(metric, what, bins)


def _unread(group: Group) -> str:
    return next((subject.unread.why for subject in group.subjects if subject.unread is not None), "")
