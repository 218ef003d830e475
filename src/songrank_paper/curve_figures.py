"""Base of the figures of validation NDCG against epochs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from songrank_paper.curves import curve_table, diverged_remarks, draw_curves
from songrank_paper.experiment import Cell, Experiment, Findings, Found, Plan, Table
from songrank_paper.methods import Method
from songrank_paper.protocol import SetProtocol, Training, budget_remark, protocols, waiting

Lines = Mapping[str, Sequence[Training]]
"""Runs of all seeds by label; empty until their setting is chosen."""
VALUE = "validation NDCG@5"


class CurveFigure(Experiment):
    """Panels side by side, with a line per method or variant and a band over seeds.

    Args:
        changes: last changes of each set's recipe, in the notation of ``songrank train``.
    """

    tasks: Sequence[str] = ("recommendation", "search")
    most = 2
    """Number of sets per task; a quick run uses the first."""
    note = ""
    """A remark on the settings."""
    compared = False
    """Whether the lines of a panel are compared to the first on test, paired by query and seed."""

    def __init__(self, changes: Sequence[str] = ()) -> None:
        self.changes = changes

    @abstractmethod
    def tuned(self, each: SetProtocol) -> Sequence[Method]:
        """Methods and variants that are tuned on validation."""

    @abstractmethod
    def panels(self, each: SetProtocol, found: Found) -> Mapping[str, Lines]:
        """The panels of a set by title."""

    def remarks(self, each: SetProtocol, found: Found) -> list[str]:
        """Further remarks on a set."""
        return []

    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """Cells of tuning, then of the curves, then of the comparisons."""
        ready = waiting(self.trainings(plan, found), found)
        done = all(cell.key in found for cell in ready)
        return [*ready, *(self._comparisons(plan, found).values() if done else [])]

    def _comparisons(self, plan: Plan, found: Found) -> dict[str, Cell]:
        """One per panel, of the lines without a diverged seed."""
        cells: dict[str, Cell] = {}
        for each in protocols(plan, self.tasks, self.changes, self.most) if self.compared else []:
            for title, lines in self.panels(each, found).items():
                keys = {label: [one.cell.key for one in own] for label, own in lines.items()}
                runs = {label: own for label, own in keys.items() if not any("diverged" in found[key] for key in own)}
                first = next(iter(lines))
                if first in runs and len(runs) > 1:
                    options = {"runs": runs, "metrics": list(each.metrics), "baseline": first}
                    cells[title] = Cell(f"{title}: comparison on test", "songrank_paper.runs:compare", options)
        return cells

    def trainings(self, plan: Plan, found: Found) -> Iterable[Training]:
        """All known runs."""
        for each in protocols(plan, self.tasks, self.changes, self.most):
            for method in self.tuned(each):
                yield from each.tuning(method).values()
            if all(each.chosen(method, found) is not None for method in self.tuned(each)):
                for lines in self.panels(each, found).values():
                    for trainings in lines.values():
                        yield from trainings

    def show(self, plan: Plan, found: Found) -> Findings:
        """The figure, and its values on validation and test as tables."""
        sets = protocols(plan, self.tasks, self.changes, self.most)
        panels = {title: lines for each in sets for title, lines in self.panels(each, found).items()}
        curves = {title: curves_of(lines, found) for title, lines in panels.items()}
        remarks = [budget_remark(plan), *([self.note] if self.note else [])]
        for each in sets:
            remarks += [*each.remarks(self.tuned(each)), *self.remarks(each, found)]
        for title, lines in panels.items():
            results = {label: [found[one.cell.key] for one in own] for label, own in lines.items()}
            remarks += [*_first(title, curves[title]), *diverged_remarks(title, results)]
        compared = {title: found[cell.key] for title, cell in self._comparisons(plan, found).items()}
        tables = {
            "curves": curve_table("Curves", curves, VALUE),
            "test": _test_table(sets, panels, found),
            "differences": _difference_table(compared),
        }
        tables = {name: table for name, table in tables.items() if table.rows}
        return Findings(remarks, tables, {"curves": draw_curves(curves, value=VALUE)})


def curves_of(lines: Lines, found: Found) -> dict[str, list[list[list[float]]]]:
    """The curves of all runs that did not diverge."""
    results = {label: [found[one.cell.key] for one in trainings] for label, trainings in lines.items()}
    return {label: [one["curve"] for one in own if "diverged" not in one] for label, own in results.items()}


def _first(title: str, lines: Mapping[str, Sequence[Sequence[Sequence[float]]]]) -> list[str]:
    best = {label: mean(max(value for _, value in run) for run in runs) for label, runs in lines.items() if runs}
    if not best:
        return []
    order = sorted(best, key=lambda label: -best[label])
    ranked = ", ".join(f"{label} {best[label]:.4f}" for label in order)
    return [f"{title}, best {VALUE} of each run, mean over seeds: {ranked}."]


def _difference_table(compared: Mapping[str, Mapping[str, Any]]) -> Table:
    """Differences of each line of a panel to the first, with 95 % intervals."""
    columns = ["panel", "curve", "compared to", "metric", "difference", "95 % from", "to"]
    rows: list[list[str | float | int | None]] = []
    for title, figures in compared.items():
        first = next(label for label in figures["summaries"] if label not in figures["differences"])
        for label, by_metric in figures["differences"].items():
            for metric, one in by_metric.items():
                numbers = [None if one[key] is None else round(one[key], 5) for key in ("mean", "low", "high")]
                rows.append([title, label, first, metric, *numbers])
    return Table("Paired differences on test, by query and seed", columns, rows)


def _test_table(sets: Sequence[SetProtocol], panels: Mapping[str, Lines], found: Found) -> Table:
    """Mean and standard deviation of the best checkpoints on test."""
    metrics = list(dict.fromkeys(each.chosen_by for each in sets))
    rows: list[list[str | float | int | None]] = []
    for title, lines in panels.items():
        for label, trainings in lines.items():
            results = [found[one.cell.key] for one in trainings]
            tests = [one["metrics"]["test"] for one in results if "test" in one.get("metrics", {})]
            for metric in metrics if tests else []:
                values = [test[metric] for test in tests if metric in test]
                if values:
                    deviation = round(stdev(values), 5) if len(values) > 1 else None
                    rows.append([title, label, metric, len(values), round(mean(values), 5), deviation])
    return Table("On test", ["panel", "curve", "metric", "seeds", "mean", "sd"], rows)
