"""Comparison of methods: means over seeds, and paired differences with confidence intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from songrank.analysis.finished_runs import FinishedRun, Method
from songrank.core.errors import DataError, shown
from songrank.metrics.comparison import Difference, Summary, compare_folds, summarise_folds


@dataclass(frozen=True, eq=False)
class MethodComparison:
    """The result of a comparison by label and metric; the baseline has no differences."""

    level: float
    metrics: list[str]
    methods: list[Method]
    baseline: Method
    summaries: dict[str, dict[str, Summary]]
    differences: dict[str, dict[str, Difference]]

    def figures(self) -> dict[str, Any]:
        """The result as plain values, without the runs."""
        return {
            "baseline": self.baseline.label,
            "level": self.level,
            "metrics": self.metrics,
            "summaries": _plain(self.summaries),
            "differences": _plain(self.differences),
        }


def compare_methods(
    methods: Sequence[Method], *, metrics: Sequence[str] | None = None, baseline: str | None = None, level: float = 0.95
) -> MethodComparison:
    """Compare methods to the first one, or to ``baseline``, the label or a run of a method.

    ``metrics`` are by default all that the runs have in common; ``level`` is the confidence level of the intervals.
    """
    wanted = common_metrics([run for method in methods for run in method.runs], metrics)
    reference = methods[0] if baseline is None else find_method(methods, baseline)
    folds = {method.label: {metric: method.folds(metric) for metric in wanted} for method in methods}
    summaries = {label: {name: summarise_folds(own[name]) for name in wanted} for label, own in folds.items()}
    theirs = folds.pop(reference.label)
    differences = {
        label: {name: compare_folds(own[name], theirs[name], level=level) for name in wanted}
        for label, own in folds.items()
    }
    return MethodComparison(level, wanted, list(methods), reference, summaries, differences)


def _plain(found: Mapping[str, Mapping[str, Summary | Difference]]) -> dict[str, dict[str, dict[str, Any]]]:
    return {label: {name: asdict(one) for name, one in by_metric.items()} for label, by_metric in found.items()}


def common_metrics(runs: Sequence[FinishedRun], wanted: Sequence[str] | None = None) -> list[str]:
    """The requested metrics, which all runs must have; by default all that the runs have in common."""
    for metric in wanted or []:
        for run in runs:
            if metric not in run.metrics:
                raise DataError(f"has no {shown(metric)}", f"it has {', '.join(run.metrics)}", file=str(run.path))
    common = [metric for metric in runs[0].metrics if all(metric in run.metrics for run in runs)]
    if not common:
        raise DataError("the runs have no metric in common", "evaluate them with the same metrics")
    return list(dict.fromkeys(wanted)) if wanted else common


def find_method(methods: Sequence[Method], baseline: str) -> Method:
    """The method with this label, with a run in this directory, or with runs in its subdirectories."""
    place = Path(baseline).resolve()
    found = [method for method in methods if method.label == baseline] or [
        method for method in methods if any(place in (own.resolve(), own.resolve().parent) for own in method.places)
    ]
    if len(found) != 1:
        labels = ", ".join(shown(method.label) for method in methods)
        what = "matches several methods" if found else "is neither a label nor one of the runs"
        raise DataError(f"baseline {shown(baseline)} {what}", f"the labels are {labels}")
    return found[0]
