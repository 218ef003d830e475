"""The experiment: a table per set and backbone with published values, of the results so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, median, stdev
from typing import Any

from songrank.analysis.report.formatting import mean_sd
from songrank_paper.experiment import Cell, Experiment, Findings, Found, Plan, Table
from songrank_paper.ir_benchmark.losses import OBJECTIVES
from songrank_paper.ir_benchmark.protocol import BASELINES, FIRST, SECOND, BenchmarkProtocol, benchmark_protocols
from songrank_paper.ir_benchmark.recipes import BACKBONES, METRICS
from songrank_paper.methods import Method
from songrank_paper.published import IR_BENCHMARK
from songrank_paper.tables import Row, diverged, edges, interval, is_done, runs_table, settings_table

CLOSE = 3.0
"""In per cent: a published value is reproduced if ours deviates by no more."""
_NOT_OURS = ("k-song",)
"""Published rows of another objective than ours: values to compare with, not to reproduce."""


class IrBenchmark(Experiment):
    """All losses on the given sets with both backbones, which are run one after the other.

    Args:
        changes: last changes of each recipe, in the notation of ``songrank train``.
    """

    name = "ir-benchmark"
    title = "Twelve losses on IR-Benchmark, with the values published with SL@K: both backbones"
    partial = True
    backbones: Sequence[str] = tuple(BACKBONES)

    def __init__(self, changes: Sequence[str] = ()) -> None:
        self.changes = changes

    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """The cells of each set and backbone once those of the earlier ones are done."""
        cells: dict[str, Cell] = {}
        for each in benchmark_protocols(plan, self.backbones, self.changes):
            own = {cell.key: cell for cell in each.cells(found)}
            cells |= own
            if any(key not in found for key in own):
                break
        return list(cells.values())

    def show(self, plan: Plan, found: Found) -> Findings:
        """A table per set and backbone, all reported runs, and the chosen settings."""
        sets = benchmark_protocols(plan, self.backbones, self.changes)
        remarks, tables = [_about(plan)], {}
        for each in sets:
            compared = {name: found[cell.key] for name, cell in each.comparisons(found).items() if cell.key in found}
            tables[f"{each.name}-{each.backbone}"] = _table(each, found, compared)
            remarks += [*each.remarks(each.methods), *_reproduced(each, found), *_verdict(each, compared)]
            remarks += [*diverged(each, found), *edges(each, found), *_limits(each, found)]
        tables["runs"], tables["settings"] = runs_table(sets, found), settings_table(sets, found)
        return Findings(remarks, tables)


class IrBenchmarkMF(IrBenchmark):
    """Matrix factorisation."""

    name = "ir-benchmark-mf"
    title = "Twelve losses on IR-Benchmark, with the values published with SL@K: matrix factorisation"
    backbones = ("mf",)


class IrBenchmarkLightGCN(IrBenchmark):
    """LightGCN."""

    name = "ir-benchmark-lightgcn"
    title = "Twelve losses on IR-Benchmark, with the values published with SL@K: LightGCN"
    backbones = ("lightgcn",)


def _about(plan: Plan) -> str:
    return (
        f"Every method had {FIRST} + {SECOND} settings, fewer in a quick run. Setting and number of epochs were chosen "
        "on a tenth of the training pairs with a separate seed; the setting was then trained on all training pairs "
        f"with each of {len(plan.seeds)} seeds and evaluated on test once. λ of EASE was chosen in the same way."
    )


def _values(each: BenchmarkProtocol, method: Method, found: Found) -> list[dict[str, Any]]:
    """Results of the finished reported runs."""
    keys = [one.cell.key for one in each.reported(method, found)]
    return [found[key] for key in keys if is_done(key, found)]


def _published(each: BenchmarkProtocol) -> Mapping[str, Mapping[str, float]]:
    """Published values by method; none beside synthetic data."""
    return {} if each.dataset.name == "synthetic" else IR_BENCHMARK[each.backbone].get(each.name, {})


def _table(each: BenchmarkProtocol, found: Found, compared: Mapping[str, Mapping[str, Any]]) -> Table:
    columns = ["method", "objective"]
    for metric in METRICS:
        columns += [metric, f"{metric}, published", "deviation, %"]
    titles = {method.name: method.title for method in each.methods}
    columns += [f"Δ {METRICS[0]} vs {titles[name]}" for name in BASELINES]
    columns += ["epochs", "seconds per epoch", "setting"]
    rows: list[Row] = []
    for method in each.methods:
        row: Row = [method.title, objective(each, method, found)]
        row += _measured(_values(each, method, found), _published(each).get(method.name, {}))
        row += [_difference(compared.get(name), method.name) for name in BASELINES]
        rows.append([*row, *_cost(each, method, found)])
    ease = each.ease(found)
    if ease is not None and is_done(ease.key, found):
        row = ["EASE", "linear model of items", *_measured([found[ease.key]], {})]
        row += [_difference(compared.get(name), "ease") for name in BASELINES]
        rows.append([*row, None, None, f"λ={found[ease.key]['regularisation']:g}"])
    return Table(f"{each.label}, {each.backbone}: test, {len(each.plan.seeds)} seeds", columns, rows)


def _measured(results: Sequence[Mapping[str, Any]], published: Mapping[str, float]) -> Row:
    """Per metric: mean ± sd over the finished seeds, the published value, and the deviation from it in per cent."""
    row: Row = []
    for metric in METRICS:
        values = [result["metrics"]["test"][metric] for result in results]
        sd = stdev(values) if len(values) > 1 else float("nan")
        row += [mean_sd(mean(values), sd) if values else "not yet run", published.get(metric)]
        row.append(_deviation(values, published.get(metric)))
    return row


def _deviation(values: Sequence[float], published: float | None) -> float | None:
    return round(100 * (mean(values) / published - 1), 1) if values and published else None


def _difference(figures: Mapping[str, Any] | None, name: str) -> str | None:
    found = None if figures is None else figures["differences"].get(name)
    return None if found is None else interval(found[METRICS[0]])


def _cost(each: BenchmarkProtocol, method: Method, found: Found) -> Row:
    """Epochs, seconds per epoch and the chosen setting."""
    setting, results = each.chosen(method, found), _values(each, method, found)
    if setting is None or not results:
        return [None, None, None]
    took = [result["epoch_seconds"] for result in results if result["epoch_seconds"] is not None]
    stages = [str(count) for count in results[0]["epochs"].values() if count]
    return [" + ".join(stages), round(median(took), 4) if took else None, setting.words]


def objective(each: BenchmarkProtocol, method: Method, found: Found) -> str:
    """The objective that a row optimises, with the chosen setting or the first one."""
    if method.name in OBJECTIVES:
        return OBJECTIVES[method.name]
    recipe = each.settings.fine_tuning(each.chosen(method, found) or method.settings(1)[0], 0)
    loss, temperature = recipe["loss"], recipe["model"]["temperature"]
    offset = "√N" if loss["rank_offset"] is None else f"{loss['rank_offset']:g}"
    inner = f"exp(x/{loss['temperature']:g})"
    if loss["surrogate"] != "exponential":
        inner = f"{loss['surrogate'].replace('_', ' ')}, margin {loss['margin']:g}, cosine / {temperature:g}"
    if loss["name"] == "song":
        return f"NDCG; {inner}; offset {offset}"
    mode = loss["mode"] or ("practical" if loss["surrogate"] == "exponential" else "theoretical")
    return f"NDCG@{loss['k']}; {inner}; offset {offset}; {mode}"


def _reproduced(each: BenchmarkProtocol, found: Found) -> list[str]:
    """Which published rows are reproduced."""
    close: list[str] = []
    apart: list[str] = []
    for method in each.methods:
        theirs = _published(each).get(method.name, {}).get(METRICS[0])
        values = [result["metrics"]["test"][METRICS[0]] for result in _values(each, method, found)]
        deviation = _deviation(values, theirs)
        if deviation is not None and method.name not in _NOT_OURS:
            (close if abs(deviation) <= CLOSE else apart).append(f"{method.title} ({deviation:+.1f} %)")
    if not close and not apart:
        return []
    return [
        f"{each.title}: published {METRICS[0]} reproduced within {CLOSE:g} %: {', '.join(close) or 'none'}; not: "
        f"{', '.join(apart) or 'none'}."
    ]


def _limits(each: BenchmarkProtocol, found: Found) -> list[str]:
    """Remarks on methods that a larger search may improve: at the end of their options, or at the limit of epochs."""
    outer: list[str] = []
    longest: list[str] = []
    watch = each.settings.base["validation"]
    enough = each.settings.epochs - watch["every"] * watch["patience"]
    for method in each.methods:
        setting = each.chosen(method, found)
        if setting is not None:
            outer += [method.title] if method.is_outermost(setting) else []
            epochs = each.tried_result(setting, found).get("epochs", {})
            longest += [method.title] if sum(epochs.values()) > enough else []
    remarks = []
    if outer:
        what = "which was tried with one learning rate; values beyond it may be better"
        remarks.append(f"{each.title}: the outermost option was chosen for {', '.join(outer)}, {what}.")
    if longest:
        what = "before early stopping; more epochs may be better"
        remarks.append(f"{each.title}: training reached the limit of epochs for {', '.join(longest)} {what}.")
    return remarks


def _verdict(each: BenchmarkProtocol, compared: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The best method, and the methods that differ significantly from each baseline."""
    titles = {method.name: method.title for method in each.methods} | {"ease": "EASE"}
    said = []
    for name, figures in compared.items():
        means = {other: own[METRICS[0]]["mean"] for other, own in figures["summaries"].items()}
        best = max(means, key=lambda other: means[other])
        signs = {other: own[METRICS[0]] for other, own in figures["differences"].items()}
        below = [titles[other] for other, own in signs.items() if (own["high"] or 0) < 0]
        above = [titles[other] for other, own in signs.items() if (own["low"] or 0) > 0]
        said.append(
            f"{each.title}: best in {METRICS[0]} is {titles[best]} ({means[best]:.4f}). Significantly below "
            f"{titles[name]} at 95 %: {', '.join(below) or 'none'}; above: {', '.join(above) or 'none'}."
        )
    return said
