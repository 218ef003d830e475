"""All methods over all sets of all tasks: what the three tables of test NDCG come to together."""

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
    """One row a method, one column a set: NDCG on test, mean over seeds; and how near to each set's best it comes."""

    name = "summary"
    title = "All methods on all sets: NDCG on test, and its share of each set's best"

    def __init__(self, changes: Sequence[str] = ()) -> None:
        self.changes = changes
        self._tables: list[MethodTable] = [table(changes) for table in _TABLES]

    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """Those of the three tables."""
        return [cell for table in self._tables for cell in table.cells(plan, found)]

    def show(self, plan: Plan, found: Found) -> Findings:
        """One table."""
        sets = protocols(plan, [table.task for table in self._tables], self.changes)
        figures = {each.name: _means(each, found) for each in sets}
        tasks = list(dict.fromkeys(each.task for each in sets))
        by_task = {task: [figures[each.name] for each in sets if each.task == task] for task in tasks}
        titles = {method.name: method.title for methods in METHODS.values() for method in methods}
        columns = ["method", *(f"{each.label} {CHOSEN_BY[each.task]}" for each in sets)]
        columns += [f"share of the best, {task}" for task in [*tasks, "all sets"]]
        rows: list[list[str | float | int | None]] = []
        for name, title in titles.items():
            own = [figures[each.name].get(name) for each in sets]
            if any(value is not None for value in own):
                parts = [share(name, some) for some in [*by_task.values(), list(figures.values())]]
                rows.append([title, *(None if value is None else round(value, 5) for value in [*own, *parts])])
        rows.sort(key=lambda row: -float(row[-1] or 0.0))
        remarks = [
            budget_remark(plan),
            "The share of the best is a method's NDCG in that of the best one of a set, mean over sets; a method that "
            "was not run on all of them, or diverged, has none.",
        ]
        return Findings(remarks, {"methods": Table("NDCG on test, mean over seeds", columns, rows)})


def _means(each: SetProtocol, found: Found) -> dict[str, float]:
    """NDCG on test of each method of which no seed diverged."""
    by = CHOSEN_BY[each.task]
    runs = finished(each, found)
    return {name: mean(found[key]["metrics"]["test"][by] for key in keys) for name, keys in runs.items()}


def share(name: str, figures: Sequence[dict[str, float]]) -> float | None:
    """A method's figure in the best one's, mean over sets; None where it has none for one of them.

    >>> figures = [{"song": 0.5, "bce": 0.4}, {"song": 0.3, "bce": 0.6, "listnet": 0.1}]
    >>> share("song", figures), share("listnet", figures)
    (0.75, None)
    """
    if any(name not in own for own in figures):
        return None
    return mean(own[name] / max(own.values()) for own in figures)
