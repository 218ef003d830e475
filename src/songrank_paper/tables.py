"""The paper's tables of test NDCG: recommendation, learning to rank, multi-label classification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from songrank.analysis.report.formatting import mean_sd
from songrank_paper.curves import diverged_remarks
from songrank_paper.experiment import Cell, Experiment, Findings, Found, Plan, Table
from songrank_paper.methods import METHODS
from songrank_paper.protocol import SetProtocol, Training, budget_remark, protocols, waiting
from songrank_paper.published import PUBLISHED
from songrank_paper.set_recipes import CHOSEN_BY, METRICS

BASELINE = "song"
Row = list[str | float | int | None]


class MethodTable(Experiment):
    """A table of all methods of a task on all of its data sets.

    Args:
        changes: last changes of each set's recipe, in the notation of ``songrank train``.
    """

    task: str

    def __init__(self, changes: Sequence[str] = ()) -> None:
        self.changes = changes

    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """Warm-ups, tuning, reported runs, then the comparisons."""
        sets = protocols(plan, [self.task], self.changes)
        trainings = [one for each in sets for method in each.methods for one in each.all_of(method, found)]
        ready = waiting(trainings, found)
        return [*ready, *(self._comparisons(sets, found) if all(cell.key in found for cell in ready) else [])]

    def _comparisons(self, sets: Sequence[SetProtocol], found: Found) -> list[Cell]:
        """One per set, and one over all sets."""
        runs = [finished(each, found) for each in sets]
        cells = [_comparison(each.name, own, METRICS[self.task]) for each, own in zip(sets, runs, strict=True)]
        if len(sets) > 1:
            everywhere = [name for name in runs[0] if all(name in own for own in runs)]
            joined = {name: [key for own in runs for key in own[name]] for name in everywhere}
            cells.append(_comparison("all sets", joined, METRICS[self.task]))
        return [cell for cell in cells if cell is not None]

    def show(self, plan: Plan, found: Found) -> Findings:
        """A table per set with published values, one over all sets, all runs, and the chosen settings."""
        sets = protocols(plan, [self.task], self.changes)
        compared = {cell.name: found[cell.key] for cell in self._comparisons(sets, found)}
        tables = {}
        remarks = [
            budget_remark(plan),
            *(line for each in sets for line in (*each.remarks(each.methods), *_beside(each))),
        ]
        if len(plan.seeds) < 3:
            remarks.append("Intervals over fewer than three seeds are rough: their coverage may be below 95 %.")
        for each in sets:
            figures = compared.get(_title(each.name))
            title = f"{each.label} on test, {len(plan.seeds)} seeds"
            tables[each.name] = _table(title, self.task, figures, PUBLISHED.get(each.name))
            remarks += [*_verdict(each.name, self.task, figures), *diverged(each, found), *edges(each, found)]
        if len(sets) > 1:
            figures = compared.get(_title("all sets"))
            tables["all-sets"] = _table("Mean over all sets, on test", self.task, figures)
            remarks += _verdict("all sets", self.task, figures)
        tables["runs"] = runs_table(sets, found)
        tables["settings"] = settings_table(sets, found)
        return Findings(remarks, tables)


class TableRs(MethodTable):
    """Recommendation: NeuMF."""

    name, task = "table-rs", "recommendation"
    title = "NDCG@10, 20 and 50 of eight methods in recommendation, NeuMF"


class TableLtr(MethodTable):
    """Learning to rank: the Context-Aware Ranker."""

    name, task = "table-ltr", "search"
    title = "NDCG@1, 3 and 5 of eight methods in learning to rank, Context-Aware Ranker"


class TableXml(MethodTable):
    """Multi-label classification: XML-CNN on texts, one hidden layer on bags of words."""

    name, task = "table-xml", "labelling"
    title = "NDCG@3 and 5 of five methods in extreme multi-label classification"


def _title(name: str) -> str:
    return f"{name}: comparison on test"


def finished(each: SetProtocol, found: Found) -> dict[str, list[str]]:
    """Keys of the reported runs of each method without a diverged seed."""
    keys = {method.name: [one.cell.key for one in each.reported(method, found)] for method in each.methods}
    return {name: own for name, own in keys.items() if own and all(is_done(key, found) for key in own)}


def is_done(key: str, found: Found) -> bool:
    """Whether a run is finished and did not diverge."""
    return key in found and "diverged" not in found[key]


def _comparison(name: str, runs: Mapping[str, Sequence[str]], metrics: Sequence[str]) -> Cell | None:
    if BASELINE not in runs:
        return None
    options = {"runs": dict(runs), "metrics": list(metrics), "baseline": BASELINE}
    return Cell(_title(name), "songrank_paper.runs:compare", options)


def _table(
    title: str, task: str, figures: Mapping[str, Any] | None, published: Mapping[str, Sequence[str]] | None = None
) -> Table:
    """Mean ± sd, rank and paired difference of each method, and published values."""
    metrics, by = METRICS[task], CHOSEN_BY[task]
    columns = ["method", *metrics, f"rank {by}", *(f"Δ vs SONG {metric}" for metric in metrics)]
    columns += [f"paper {metric}" for metric in metrics] if published else []
    ranks = _ranks(figures, by)
    rows: list[Row] = []
    for method in METHODS[task]:
        row: Row = [method.title]
        if figures is None or method.name not in figures["summaries"]:
            row += ["diverged", *[None] * (2 * len(metrics))]
        else:
            summaries, differences = figures["summaries"][method.name], figures["differences"].get(method.name)
            row += [mean_sd(summaries[metric]["mean"], summaries[metric]["sd"]) for metric in metrics] + [
                ranks[method.name]
            ]
            row += [None if differences is None else interval(differences[metric]) for metric in metrics]
        rows.append([*row, *(published[method.name] if published else [])])
    return Table(title, columns, rows)


def _ranks(figures: Mapping[str, Any] | None, metric: str) -> dict[str, int]:
    if figures is None:
        return {}
    order = sorted(figures["summaries"], key=lambda name: -figures["summaries"][name][metric]["mean"])
    return {name: place for place, name in enumerate(order, 1)}


def interval(difference: Mapping[str, Any]) -> str:
    """A difference with its confidence interval.

    >>> interval({"mean": 0.0031, "low": 0.0012, "high": 0.005})
    '+0.0031 [+0.0012, +0.0050]'
    """
    mean, low, high = (difference[key] for key in ("mean", "low", "high"))
    return f"{mean:+.4f}" + ("" if low is None or high is None else f" [{low:+.4f}, {high:+.4f}]")


def _verdict(name: str, task: str, figures: Mapping[str, Any] | None) -> list[str]:
    """The best method, and the methods that differ significantly from SONG."""
    if figures is None:
        return [f"{name}: SONG diverged with a reported seed, so there is no comparison."]
    by, titles = CHOSEN_BY[task], {method.name: method.title for method in METHODS[task]}
    means = {other: found[by]["mean"] for other, found in figures["summaries"].items()}
    best = max(means, key=lambda other: means[other])
    below = [titles[other] for other, found in figures["differences"].items() if (found[by]["high"] or 0) < 0]
    above = [titles[other] for other, found in figures["differences"].items() if (found[by]["low"] or 0) > 0]
    behind = "" if best == BASELINE else f"; SONG {means[BASELINE]:.4f}"
    return [
        f"{name}: best in {by} is {titles[best]} ({means[best]:.4f}{behind}). Significantly below SONG at 95 %: "
        f"{', '.join(below) or 'none'}; above: {', '.join(above) or 'none'}."
    ]


def diverged(each: SetProtocol, found: Found) -> list[str]:
    """Remarks on methods of which a reported run diverged."""
    keys = {method.title: [one.cell.key for one in each.reported(method, found)] for method in each.methods}
    return diverged_remarks(
        each.title, {title: [found[key] for key in own if key in found] for title, own in keys.items()}
    )


def edges(each: SetProtocol, found: Found) -> list[str]:
    """A remark on methods whose chosen learning rate is the largest or smallest one tried."""
    at: dict[str, list[str]] = {"lowest": [], "highest": []}
    for method in each.methods:
        tried, chosen = each.tried(method, found) or {}, each.chosen(method, found)
        rates = {setting.rate for setting in tried}
        if chosen is not None and tried[chosen] is not None and len(rates) > 1:
            for edge, rate in (("lowest", min(rates)), ("highest", max(rates))):
                at[edge] += [method.title] if chosen.rate == rate else []
    said = [f"the {edge} for {', '.join(titles)}" for edge, titles in at.items() if titles]
    if not said:
        return []
    return [f"{each.title}: of the learning rates tried, {' and '.join(said)} was chosen; others may be better."]


def _beside(each: SetProtocol) -> list[str]:
    """Remarks on differences to the setting of the paper."""
    if each.name not in PUBLISHED:
        return []
    if each.dataset.name == "synthetic":
        return [
            f"{each.name}: published values are of the real set, ours of synthetic data, so they are not comparable."
        ]
    if each.task == "labelling" and not each.name.endswith("-text"):
        return [f"{each.name}: published values are of XML-CNN on texts, ours of one hidden layer on bags of words."]
    return []


def runs_table(sets: Sequence[SetProtocol], found: Found) -> Table:
    """All reported runs."""
    metrics = sets[0].metrics
    rows: list[Row] = []
    for each in sets:
        for method in each.methods:
            for one, seed in zip(each.reported(method, found), each.plan.seeds, strict=False):
                if one.cell.key in found:
                    rows.append([each.title, method.title, seed, *_run_row(one, metrics, found)])
    return Table("Reported runs, on test", ["set", "method", "seed", *metrics, "epoch", "seconds"], rows)


def _run_row(training: Training, metrics: Sequence[str], found: Found) -> Row:
    result = found[training.cell.key]
    if "diverged" in result:
        return ["diverged", *[None] * (len(metrics) + 1)]
    values = [round(result["metrics"]["test"][metric], 5) for metric in metrics]
    return [*values, result["epoch"], round(result["seconds"], 1)]


def settings_table(sets: Sequence[SetProtocol], found: Found) -> Table:
    """Validation values of all settings."""
    rows: list[Row] = []
    for each in sets:
        for method in each.methods:
            chosen = each.chosen(method, found)
            for setting, value in (each.tried(method, found) or {}).items():
                shown = "diverged" if value is None else round(value, 5)
                rows.append([each.title, method.title, setting.words, shown, "chosen" if setting == chosen else None])
    by = sets[0].chosen_by
    return Table("Tuning on validation", ["set", "method", "setting", f"validation {by}", ""], rows)
