"""``songrank compare``: means over seeds, and differences per query with intervals."""

import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from songrank.analysis.baseline_methods import baseline_methods
from songrank.analysis.finished_runs import Method, find_runs, group_runs, how_to_finish, read_run
from songrank.analysis.method_comparison import MethodComparison, common_metrics, compare_methods, find_method
from songrank.baselines.evaluate import BASELINES, check_baseline
from songrank.cli.progress import progress_bar
from songrank.core.errors import DataError
from songrank.io.json_files import plain
from songrank.metrics.comparison import HIGHEST_LEVEL

_EMPTY_WORDS = {"skip": "left out", "zero": "counted as 0", "one": "counted as 1"}


def compare(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of finished runs, or folders of such folders.")
    ],
    metric: Annotated[list[str] | None, typer.Option(help="Metric to show, e.g. ndcg@10; may be repeated.")] = None,
    baseline: Annotated[str | None, typer.Option(help="Label or run of the method to compare the others with.")] = None,
    split: Annotated[str, typer.Option(help="Split whose evaluation to read.")] = "test",
    level: Annotated[float, typer.Option(help="Level of the confidence intervals.")] = 0.95,
    baseline_model: Annotated[
        list[str] | None, typer.Option(help="Recommendation: ease, ials or popularity beside; may be repeated.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="For baseline models: where the runs' data set is now, if it was moved.")
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="No progress bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="All of it, for programs.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Tables to paste into a document.")] = False,
    yardstick: Annotated[list[str] | None, typer.Option(hidden=True, help="The old name of --baseline-model.")] = None,
) -> None:
    """Compare finished runs: means over seeds, and differences per query with intervals.

    Runs that differ only in seed and data are one method, labelled by its loss
    and by whatever else tells it from the others. On the same queries, methods
    are compared with the first one given, or with --baseline. Of a folder of
    runs, those still to be finished are left out, with a warning.

    Train three seeds or more: then intervals allow for luck with the seed. On
    several data sets, such as five folds, means and differences are averages over them.

    A baseline model is a recommender without a deep model, fitted here and now to the runs' data, its options chosen
    on validation, so that you see whether the deep model pays.
    """
    if as_json and markdown:
        raise DataError("both --json and --markdown were given", "choose one")
    if not 0 < level <= HIGHEST_LEVEL:
        raise DataError(f"level is {level:g}", f"expected a number above 0 and at most {HIGHEST_LEVEL}")
    names = [*(baseline_model or []), *(yardstick or [])]
    for name in names:
        check_baseline(name)
    methods = group_runs([read_run(path, split) for path in runs_to_compare(runs)])
    if baseline is not None and baseline not in names:
        find_method(methods, baseline)
    if names:
        metric = common_metrics([run for method in methods for run in method.runs], metric)
        with progress_bar(quiet or as_json) as report:
            methods += baseline_methods(names, methods, split, metric, data=data, progress=report)
    result = compare_methods(methods, metrics=metric, baseline=baseline, level=level)
    if as_json:
        typer.echo(json.dumps(plain(_as_dict(result, split)), indent=2, ensure_ascii=False, allow_nan=False))
    elif markdown:
        typer.echo(_markdown(result, split))
    else:
        _print(result, split)


def runs_to_compare(places: list[Path]) -> list[Path]:
    """All runs of these folders but unfinished ones, of which a warning tells; one named itself is never left out."""
    found, named = find_runs(places), {place.resolve() for place in places}
    finished = [run for run in found if run.resolve() in named or any((run / "evaluation").glob("*.json"))]
    if not finished:
        return found
    for run in found:
        if run not in finished:
            typer.echo(f"warning: {run}: is left out, since it was not evaluated; {how_to_finish(run)}", err=True)
    return finished


def _as_dict(result: MethodComparison, split: str) -> dict[str, Any]:
    figures = result.figures()
    return {
        "split": split,
        **dict(zip(("queries", "empty", "folds"), _sizes(result), strict=True)),
        **result.methods[0].runs[0].policies,
        "level": result.level,
        "baseline": result.baseline.label,
        "methods": [
            {
                "label": method.label,
                "seeds": sorted({run.seed for run in method.runs}),
                "runs": [str(path) for path in method.places],
                "metrics": figures["summaries"][method.label],
                "differences": figures["differences"].get(method.label, {}),
                **({"yardstick": _baseline_dict(method)} if method.measured else {}),
            }
            for method in result.methods
        ],
    }


def _baseline_dict(method: Method) -> dict[str, Any]:
    """The options chosen on each data set, and the splits that histories were read from."""
    chosen = [
        {"data": str(run.path), "options": own.options, "metric": own.select, "validation": own.validation}
        for run, own in zip(method.runs, method.measured, strict=True)
    ]
    return {"inputs": list(method.measured[0].inputs), "chosen": chosen}


def _sizes(result: MethodComparison) -> tuple[int, int, int]:
    """Queries, queries without relevant items, and data sets."""
    by_data = {run.lists_sha256: run for run in result.baseline.runs}
    return sum(run.queries for run in by_data.values()), sum(run.empty for run in by_data.values()), len(by_data)


def _tables(result: MethodComparison) -> list[list[list[str]]]:
    """The means, then the differences to the baseline; headings first."""
    folds = _sizes(result)[2]
    means = [["method", "seeds", *(["folds"] if folds > 1 else []), *result.metrics]]
    for method in result.methods:
        few, many = _seed_counts(method)
        cells = [method.label, f"{few}" if few == many else f"{few} to {many}", *([f"{folds}"] if folds > 1 else [])]
        for summary in result.summaries[method.label].values():
            cells.append(f"{summary.mean:.4f}" + ("" if math.isnan(summary.sd) else f" ± {summary.sd:.4f}"))
        means.append(cells)
    interval = f"{100 * result.level:g}% interval"
    rows = [["method", "metric", f"difference to {result.baseline.label}", interval, "better", "same", "worse"]]
    for label, by_metric in result.differences.items():
        for metric, found in by_metric.items():
            interval = "none" if math.isnan(found.low) else f"[{found.low:+z.4f}, {found.high:+z.4f}]"
            counts = (f"{count:,}" for count in (found.wins, found.ties, found.losses))
            rows.append([label, metric, f"{found.mean:+z.4f}", interval, *counts])
    return [means, rows] if result.differences else [means]


def _seed_counts(method: Method) -> tuple[int, int]:
    """Fewest and most seeds on one data set."""
    data = [run.lists_sha256 for run in method.runs]
    counts = [data.count(one) for one in set(data)]
    return min(counts), max(counts)


def _notes(result: MethodComparison, split: str) -> list[str]:
    queries, empty, folds = _sizes(result)
    policies = result.methods[0].runs[0].policies
    words = _EMPTY_WORDS.get(policies["empty_policy"], policies["empty_policy"])
    among = policies["candidates"]
    note = (
        f"{split} split{f' of {folds} data sets' if folds > 1 else ''}: {queries:,} queries, {empty:,} without "
        f"relevant items ({words}); ties: {policies['ties']}; gain: {policies['gain']}"
    )
    if among != "all":
        note += f"; among {among:,} sampled candidates" if isinstance(among, int) else f"; candidates: {among}"
    beside = [method for method in result.methods if method.measured]
    notes = [note, _baseline_note(beside)] if beside else [note]
    return [*notes, _interval_note(result, beside)] if result.differences else notes


def _baseline_note(beside: list[Method]) -> str:
    items = " and ".join(beside[0].measured[0].inputs).replace("train", "training")
    note = f"yardsticks: fitted to training; what they know of a user are the items of {items}"
    for method in beside:
        for found in method.measured:
            words = ", ".join(f"{option} {value:g}" for option, value in found.options.items())
            if words:
                note += f"; {method.label}: {words}, with which validation {found.select} is {found.validation:.4f}"
    return note


def _interval_note(result: MethodComparison, beside: list[Method]) -> str:
    fewest = {method.label: _seed_counts(method)[0] for method in result.methods}
    certain = [method.label for method in beside if BASELINES[method.measured[0].name].deterministic]
    single = [label for label, seeds in fewest.items() if seeds == 1 and label not in certain]
    over = "queries" if set(fewest.values()) == {1} else "queries and seeds"
    note = f"intervals: Student's t on differences per query, over {over}"
    untrained = {method.label for method in beside}
    paired = {} if result.baseline.label in untrained else result.differences
    if any(one.paired_seeds for label in paired.keys() - untrained for one in paired[label].values()):
        note += ", runs with the same seed paired"
    note += "; not adjusted for the number of comparisons"
    if over == "queries":
        return f"{note}; with one seed a method they cannot say what another seed would change"
    if single:
        note += f"; {', '.join(single)}: one seed only, so they leave out what another would change"
    return f"{note}; two seeds are few: they may be too narrow" if 2 in fewest.values() else note


def _markdown(result: MethodComparison, split: str) -> str:
    return "\n\n".join([*map(_markdown_table, _tables(result)), *map(_escaped, _notes(result, split))])


def _markdown_table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(map(_escaped, row)) + " |" for row in rows]
    lines.insert(1, "|" + "".join(" --- |" if cell in ("method", "metric") else " ---: |" for cell in rows[0]))
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return "".join("\\" + c if c in "\\|*_`<>" else c for c in _printable(text))


def _printable(text: str) -> str:
    """What a run's files say, without what would drive a terminal or break a row."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _print(result: MethodComparison, split: str) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = 10_000  # a file has no width to keep to
    for rows in _tables(result):
        table = Table(box=None, pad_edge=False)
        for title in rows[0]:
            side: Literal["left", "right"] = "left" if title in ("method", "metric") else "right"
            table.add_column(Text(_printable(title)), justify=side, no_wrap=title.endswith("% interval"))
        for row in rows[1:]:
            table.add_row(*(Text(_printable(cell)) for cell in row))
        console.print(table, "")
    for note in _notes(result, split):
        console.print(_printable(note), highlight=False, markup=False, soft_wrap=True)
