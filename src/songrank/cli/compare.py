"""``songrank compare``: means over seeds, and paired differences with confidence intervals."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from songrank.cli.printing import TextTable, echo, unit_of, wide_console
from songrank.cli.progress import progress_bar
from songrank.core.errors import DataError
from songrank.core.text import counted, printable
from songrank.io.json_files import plain

if TYPE_CHECKING:
    from songrank.analysis.finished_runs import Method
    from songrank.analysis.method_comparison import MethodComparison

Runs = Annotated[list[Path], typer.Argument(metavar="RUN", help="Run directories, or directories that contain them.")]
Baseline = Annotated[str | None, typer.Option(help="Label or run of the method that others are compared to.")]
_Figures = dict[str, dict[str, float]]  # of recommended items, by method
_EMPTY_WORDS = {"skip": "left out", "zero": "counted as 0", "one": "counted as 1"}


def compare(
    runs: Runs,
    metric: Annotated[list[str] | None, typer.Option(help="Metric to show, e.g. ndcg@10; repeatable.")] = None,
    baseline: Baseline = None,
    split: Annotated[str, typer.Option(help="Split to compare on.")] = "test",
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    baseline_model: Annotated[
        list[str] | None, typer.Option(help="Baseline for recommendation: ease, ials or popularity; repeatable.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="With --baseline-model or --lists: current path of the data set, if moved.")
    ] = None,
    lists: Annotated[
        int | None, typer.Option(help="Add coverage, novelty, … of the first K recommended items.", metavar="K", min=1)
    ] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Hide the progress bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")] = False,
    yardstick: Annotated[list[str] | None, typer.Option(hidden=True, help="Former name of --baseline-model.")] = None,
) -> None:
    """Compare finished runs: means over seeds, and paired differences with confidence intervals.

    Runs that differ only in seed and data set form one method, labelled by its loss and by the settings in which it
    differs from the other methods. Methods are compared query by query to the first method, or to --baseline.
    Unfinished runs in a directory are skipped with a warning.

    Train at least three seeds, so that the intervals include the variation between seeds. On several data sets, for
    example five folds, means and differences are averaged over the data sets.

    --lists 10 adds the coverage, Gini index, novelty and popularity lift of the first 10 items of each user, as means
    over the runs of a method.

    A baseline model is a recommender without a neural network. It is fitted to the training split of the runs' data
    set, and its options are chosen on validation.
    """
    from songrank.analysis.baseline_methods import baseline_methods
    from songrank.analysis.finished_runs import group_runs, read_run
    from songrank.analysis.method_comparison import common_metrics, compare_methods, find_method
    from songrank.baselines.evaluate import check_baseline
    from songrank.metrics.comparison import HIGHEST_LEVEL

    if as_json and markdown:
        raise DataError("--json and --markdown exclude each other", "choose one")
    if not 0 < level <= HIGHEST_LEVEL:
        raise DataError(f"level is {level:g}", f"expected a number above 0 and at most {HIGHEST_LEVEL}")
    if yardstick:
        echo("warning: --yardstick is now --baseline-model", err=True)
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
    figures: _Figures = {}
    if lists is not None:
        from songrank.analysis.evaluate import method_list_figures

        figures = method_list_figures(result.methods, split, lists, data=data)
    if as_json:
        content = plain(_as_dict(result, split, figures))
        echo(json.dumps(content, indent=2, allow_nan=False))
    elif markdown:
        echo(_markdown(result, split, figures))
    else:
        _print(result, split, figures)


def runs_to_compare(places: list[Path]) -> list[Path]:
    """The runs in these directories without unfinished ones, which are reported; runs named directly are kept."""
    from songrank.analysis.finished_runs import find_runs, how_to_finish

    found, named = find_runs(places), {place.resolve() for place in places}
    finished = [run for run in found if run.resolve() in named or any((run / "evaluation").glob("*.json"))]
    if not finished:
        return found
    for run in found:
        if run not in finished:
            echo(f"warning: {run}: skipped, because it has no evaluation; {how_to_finish(run)}", err=True)
    return finished


def _as_dict(result: "MethodComparison", split: str, lists: _Figures) -> dict[str, Any]:
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
                **({"lists": lists[method.label]} if method.label in lists else {}),
                **({"baseline_model": _baseline_dict(method)} if method.measured else {}),
            }
            for method in result.methods
        ],
    }


def _baseline_dict(method: "Method") -> dict[str, Any]:
    """The options chosen on each data set, and the splits that interaction histories were read from."""
    chosen = [
        {"data": str(run.path), "options": own.options, "metric": own.select, "validation": own.validation}
        for run, own in zip(method.runs, method.measured, strict=True)
    ]
    return {"inputs": list(method.measured[0].inputs), "chosen": chosen}


def _sizes(result: "MethodComparison") -> tuple[int, int, int]:
    """Queries, queries without relevant items, and data sets."""
    by_data = {run.lists_sha256: run for run in result.baseline.runs}
    return sum(run.queries for run in by_data.values()), sum(run.empty for run in by_data.values()), len(by_data)


def _tables(result: "MethodComparison", lists: _Figures) -> list[list[list[str]]]:
    """The means, figures of recommended items, and differences to the baseline method; column heads first."""
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
    own = [["method", *next(iter(lists.values()))]] if lists else []
    own += [[label, *(f"{value:.4f}" for value in values.values())] for label, values in lists.items()]
    return [means, *([own] if lists else []), *([rows] if result.differences else [])]


def _seed_counts(method: "Method") -> tuple[int, int]:
    """Smallest and largest number of seeds on one data set."""
    data = [run.lists_sha256 for run in method.runs]
    counts = [data.count(one) for one in set(data)]
    return min(counts), max(counts)


def _notes(result: "MethodComparison", split: str) -> list[str]:
    queries, empty, folds = _sizes(result)
    first = result.baseline.runs[0] if not result.baseline.measured else result.methods[0].runs[0]
    policies = first.policies
    words = _EMPTY_WORDS.get(policies["empty_policy"], policies["empty_policy"])
    among = policies["candidates"]
    note = (
        f"{split} split{f' of {folds} data sets' if folds > 1 else ''}: {counted(queries, unit_of(first.path))}, "
        f"{empty:,} without relevant items ({words}); ties: {policies['ties']}; gain: {policies['gain']}"
    )
    if among != "all":
        note += f"; {among:,} sampled candidates" if isinstance(among, int) else f"; candidates: {among}"
    beside = [method for method in result.methods if method.measured]
    notes = [note, _baseline_note(beside)] if beside else [note]
    return [*notes, _interval_note(result, beside)] if result.differences else notes


def _baseline_note(beside: "list[Method]") -> str:
    items = " and ".join(beside[0].measured[0].inputs).replace("train", "training")
    note = f"baseline models: fitted to the training split; user histories: {items} items"
    for method in beside:
        for found in method.measured:
            words = ", ".join(f"{option} {value:g}" for option, value in found.options.items())
            if words:
                note += f"; {method.label}: {words} (validation {found.select} {found.validation:.4f})"
    return note


def _interval_note(result: "MethodComparison", beside: "list[Method]") -> str:
    from songrank.baselines.evaluate import BASELINES

    fewest = {method.label: _seed_counts(method)[0] for method in result.methods}
    certain = [method.label for method in beside if BASELINES[method.measured[0].name].deterministic]
    single = [label for label, seeds in fewest.items() if seeds == 1 and label not in certain]
    unit = unit_of(result.methods[0].runs[0].path)
    over = unit if set(fewest.values()) == {1} else f"{unit} and seeds"
    note = f"intervals: Student's t on paired differences over {over}"
    untrained = {method.label for method in beside}
    paired = {} if result.baseline.label in untrained else result.differences
    if any(one.paired_seeds for label in paired.keys() - untrained for one in paired[label].values()):
        note += ", with runs of the same seed paired"
    note += "; not adjusted for multiple comparisons"
    if over == unit:
        return f"{note}; one seed per method: the variation between seeds is not included"
    if single:
        note += f"; {', '.join(single)}: one seed, so the variation between seeds is not included"
    return f"{note}; with two seeds the intervals may be too narrow" if 2 in fewest.values() else note


def _markdown(result: "MethodComparison", split: str, lists: _Figures) -> str:
    return "\n\n".join([*map(_markdown_table, _tables(result, lists)), *map(_escaped, _notes(result, split))])


def _markdown_table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(map(_escaped, row)) + " |" for row in rows]
    lines.insert(1, "|" + "".join(" --- |" if cell in ("method", "metric") else " ---: |" for cell in rows[0]))
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return "".join("\\" + c if c in "\\|*_`<>" else c for c in printable(text))


def _print(result: "MethodComparison", split: str, lists: _Figures) -> None:
    console = wide_console()
    for rows in _tables(result, lists):
        table = TextTable(box=None, pad_edge=False)
        for title in rows[0]:
            side: Literal["left", "right"] = "left" if title in ("method", "metric") else "right"
            table.add_column(Text(printable(title)), justify=side, no_wrap=title.endswith("% interval"))
        for row in rows[1:]:
            table.add_row(*(Text(printable(cell)) for cell in row))
        console.print(table, "")
    for note in _notes(result, split):
        echo(note)
