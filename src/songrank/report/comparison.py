"""Methods side by side: means over seeds and paired differences, by the formulas of ``songrank compare``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from songrank.data.errors import DataError
from songrank.errors import shown
from songrank.metrics.comparison import Difference, Summary, compare_folds, summarise_folds
from songrank.training.finished_runs import FinishedRun, Method

LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Comparison:
    """Summaries and differences by label, then by metric; the baseline has no differences."""

    baseline: str
    metrics: tuple[str, ...]
    summaries: dict[str, dict[str, Summary]]
    differences: dict[str, dict[str, Difference]]


def compare_methods(methods: Sequence[Method], baseline: str | None = None) -> Comparison:
    """Compare methods with the first one, or with that which ``baseline`` names by its label or by one of its runs."""
    reference = methods[0] if baseline is None else _find(methods, baseline)
    metrics = _common([run for method in methods for run in method.runs])
    folds = {method.label: {name: method.folds(name) for name in metrics} for method in methods}
    summaries = {label: {name: summarise_folds(own[name]) for name in metrics} for label, own in folds.items()}
    theirs = folds.pop(reference.label)
    differences = {
        label: {name: compare_folds(own[name], theirs[name], level=LEVEL) for name in metrics}
        for label, own in folds.items()
    }
    return Comparison(reference.label, tuple(metrics), summaries, differences)


def _common(runs: Sequence[FinishedRun]) -> list[str]:
    common = [metric for metric in runs[0].metrics if all(metric in run.metrics for run in runs)]
    if not common:
        raise DataError("the runs have no metric in common", "evaluate them alike")
    return common


def _find(methods: Sequence[Method], baseline: str) -> Method:
    place = Path(baseline).resolve()
    found = [method for method in methods if method.label == baseline] or [
        method for method in methods if any(place == run.path.resolve() for run in method.runs)
    ]
    if len(found) != 1:
        labels = ", ".join(shown(method.label) for method in methods)
        raise DataError(f"baseline {shown(baseline)} is neither a label nor one of the runs", f"labels are {labels}")
    return found[0]
