"""Summary of the three tables: test NDCG of all methods on all sets of all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from songrank_paper.experiment import Cell, Experiment, Findings, Found, Plan, Table
from songrank_paper.methods import METHODS
from songrank_paper.protocol import SetProtocol, budget_remark, protocols
from songrank_paper.set_recipes import CHOSEN_BY
from songrank_paper.tables import MethodTable, TableLtr, TableRs, TableXml, finished

_TABLES = (TableRs, TableLtr, TableXml)


class Summary(Experiment):
    """NDCG on test, a row per method and a column per set, means over seeds; also relative to the best of each set."""

    name = "summary"
    title = "All methods on all sets: NDCG on test, and relative to the best of each set"

    def __init__(self, changes: Sequence[str] = ()) -> None:
        self.changes = changes
        self._tables: list[MethodTable] = [table(changes) for table in _TABLES]

    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """Cells of the three tables."""
        return [cell for table in self._tables for cell in table.cells(plan, found)]

    def show(self, plan: Plan, found: Found) -> Findings:
        """One table."""
        sets = protocols(plan, [table.task for table in self._tables], self.changes)
        figures = {each.name: _means(each, found) for each in sets}
        tasks = list(dict.fromkeys(each.task for each in sets))
        by_task = {task: [figures[each.name] for each in sets if each.task == task] for task in tasks}
        titles = {method.name: method.title for methods in METHODS.values() for method in methods}
        columns = ["method", *(f"{each.label} {CHOSEN_BY[each.task]}" for each in sets)]
        columns += [f"relative to best, {task}" for task in [*tasks, "all sets"]]
        rows: list[list[str | float | int | None]] = []
        for name, title in titles.items():
            own = [figures[each.name].get(name) for each in sets]
            if any(value is not None for value in own):
                parts = [share(name, some) for some in [*by_task.values(), list(figures.values())]]
                rows.append([title, *(None if value is None else round(value, 5) for value in [*own, *parts])])
        rows.sort(key=lambda row: -float(row[-1] or 0.0))
        remarks = [
            budget_remark(plan),
            "Relative to best: NDCG divided by that of the best method on a set, mean over sets; empty for methods "
            "that were not run on all sets or diverged.",
        ]
        return Findings(remarks, {"methods": Table("NDCG on test, mean over seeds", columns, rows)})


def _means(each: SetProtocol, found: Found) -> dict[str, float]:
    """NDCG on test of each method without a diverged seed."""
    by = CHOSEN_BY[each.task]
    runs = finished(each, found)
    return {name: mean(found[key]["metrics"]["test"][by] for key in keys) for name, keys in runs.items()}


def share(name: str, figures: Sequence[dict[str, float]]) -> float | None:
    """The value of a method relative to the best one, mean over sets; None if it is missing for a set.

    >>> figures = [{"song": 0.5, "bce": 0.4}, {"song": 0.3, "bce": 0.6, "listnet": 0.1}]
    >>> share("song", figures), share("listnet", figures)
    (0.75, None)
    """
    if any(name not in own for own in figures):
        return None
    return mean(own[name] / max(own.values()) for own in figures)
