"""``table-stats``: sizes of the data sets, ours and published."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from songrank.data import open_dataset
from songrank.training.run_directory import fingerprint
from songrank_paper.data_sets import SETS, PaperSet
from songrank_paper.experiment import Cell, Experiment, Findings, Found, Plan, Table

_TITLES = {
    "recommendation": "Recommendation",
    "search": "Learning to rank",
    "labelling": "Multi-label classification",
}
_COLUMNS = {
    "recommendation": ("users", "items", "interactions", "sparsity"),
    "search": ("queries", "query-document pairs", "maximum per query", "minimum per query"),
    "labelling": ("labels", "training texts", "test texts", "texts per label", "labels per text"),
}
_REMARKS = (
    "Synthetic sets have the shape of the set that they replace, reduced in a quick run.",
    "Training texts include those held out for validation.",
    "MSLR-WEB30K is published with 31,531 queries; the paper's 30,000 is a round number.",
    "The paper prints the number of labels of Wiki10-31K as 309,38, a misprint of 30,938.",
)


def count(folder: Path, data: str, path: str) -> dict[str, Any]:
    """Counts of a prepared data set, as in the paper's tables.

    Args:
        folder: directory of the cell, which is not used.
        data: fingerprint of the data set.
        path: path of the data set.
    """
    dataset = open_dataset(path)
    return {"made_from": dataset.name, "figures": _figures(dataset.task, dataset.info)}


def _figures(task: str, info: dict[str, Any]) -> list[float | int | None]:
    """The numbers of a row, from the statistics of a data set or of the paper."""
    if task == "recommendation":
        return [info.get("queries"), info.get("items"), info.get("pairs"), info.get("sparsity")]
    if task == "search":
        lengths = info.get("list_length", {})
        return [info.get("queries"), info.get("items"), lengths.get("max"), lengths.get("min")]
    splits = {name: part if isinstance(part, int) else part["queries"] for name, part in info.get("splits", {}).items()}
    training = splits.get("train", 0) + splits.get("validation", 0)
    texts, labels = (info.get(key) for key in ("texts_per_label", "labels_per_text"))
    if "pairs" in info:
        texts, labels = info["pairs"] / info["items"], info["pairs"] / info["queries"]
    return [info.get("items"), training or None, splits.get("test"), texts, labels]


class TableStats(Experiment):
    """The paper's three tables of data sets."""

    name = "table-stats"
    title = "Statistics of the data sets"

    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """One per data set."""
        return [self._cell(plan, name) for name in plan.data if not SETS[name].benchmark]

    def _cell(self, plan: Plan, name: str) -> Cell:
        path = plan.data[name]
        options = {"data": fingerprint(open_dataset(path))}
        return Cell(name, "songrank_paper.stats:count", options, {"path": str(path.absolute())})

    def show(self, plan: Plan, found: Found) -> Findings:
        """A table per task: the used sets, then the other sets of the paper."""
        tables = {}
        for task, columns in _COLUMNS.items():
            heads = ["data set", "used"]
            for column in columns:
                heads += [column, f"{column}, paper"]
            rows = [self._row(plan, found, known) for known in SETS.values() if self._shown(plan, known, task)]
            tables[task] = Table(_TITLES[task], heads, rows)
        return Findings(_REMARKS, tables)

    def _shown(self, plan: Plan, known: PaperSet, task: str) -> bool:
        of_paper = bool(known.published) and known.shape is not None
        return known.group == task and (known.name in plan.data or of_paper)

    def _row(self, plan: Plan, found: Found, known: PaperSet) -> list[str | float | int | None]:
        theirs = _figures(known.task, dict(known.published))
        used, ours = "no", [None] * len(theirs)
        if known.name in plan.data:
            counted = found[self._cell(plan, known.name).key]
            used = "synthetic" if counted["made_from"] == "synthetic" else "real"
            ours = counted["figures"]
        return [known.title, used, *(cell for pair in zip(ours, theirs, strict=True) for cell in pair)]
