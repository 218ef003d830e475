"""``songrank demo``: data, training, comparison, ranking and a report in about a minute."""

import os
import shutil
import sys
import webbrowser
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from songrank.cli.printing import TextTable, echo
from songrank.cli.progress import progress_bar

if TYPE_CHECKING:
    from songrank.analysis.finished_runs import FinishedRun

LOSSES = {"song": "SONG", "k-song": "K-SONG", "softmax": "cross-entropy", "lambdarank": "LambdaRank"}
LOSSES |= {"listnet": "ListNet"}
LEARNING_RATES = (0.03, 0.1, 0.3)
_METRICS = ("ndcg@5", "ndcg@10")
_LEVEL = "not significantly different from"
_SPLIT: dict[str, Any] = {
    "split": "random",
    "validation": 0.2,
    "test": 0.4,
    "standardise": True,
    "ignore": ["product", "title"],
}


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Directory for data and runs.")] = Path(
        "songrank-demo"
    ),
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print the results only.")] = False,
    browser: Annotated[bool, typer.Option(help="Open the report in a browser, if there is one.")] = True,
) -> None:
    """Train, compare, rank and report on a synthetic product search, in about a minute.

    Products have grades from 0 to 4, and lists are long. A linear model cannot order all of them correctly, so the loss
    decides which errors it makes. Each loss trains the same model with the same three learning rates; validation data
    choose one, and test data compare the losses. The command resumes where it was interrupted.
    """
    from songrank.analysis.report import write_report
    from songrank.data import demo as shop
    from songrank.data import prepare
    from songrank.serving.open import open_model
    from songrank.serving.rank_file import rank_file

    data, ranked = output / "data", output / "ranked.csv"
    if not (output / shop.NEW).exists():
        shop.write_shop(output)
    if not (data / "dataset.json").exists():
        prepare("feature-table", output / shop.GRADED, data, query_column="query", label_column="grade", **_SPLIT)
    best = {loss: _best_run(output / "runs", data, loss, quiet) for loss in LOSSES}
    rank_file(open_model(best["song"].path), output / shop.NEW, ranked, by_rank=True, overwrite=True)
    paths = [run.path for run in best.values()]
    page = write_report(paths, output / "report.html", baseline=str(paths[0]), overwrite=True)
    opened = browser and not quiet and _has_browser() and webbrowser.open(page.resolve().as_uri())

    console = Console(width=min(shutil.get_terminal_size().columns, 120), highlight=False)
    _print_comparison(console, best)
    _print_ranking(console, ranked, output / shop.NEW)
    where = f"{page}{' (opened in the browser)' if opened else ''}"
    console.print(f"Report: {where}; files and runs: {output}", soft_wrap=True)
    console.print("\nNext, with a table of your own (one row per document, a query column and a grade column):")
    for command in (
        "data prepare feature-table documents.csv -o data/mine --query-column query --label-column grade "
        "--split random --validation 0.2 --standardise",
        "train search data=data/mine -o runs/mine",
        "rank runs/mine new-documents.csv -o ranked.csv",
    ):
        console.print(f"  songrank {command}", soft_wrap=True)


def _best_run(folder: Path, data: Path, loss: str, quiet: bool) -> "FinishedRun":
    """The run with the best learning rate by validation."""
    from songrank.analysis.finished_runs import read_run
    from songrank.training.config import recipe_files
    from songrank.training.run import Run
    from songrank.training.run_directory import RunDirectory

    places = [folder / f"{loss}-{rate:g}" for rate in LEARNING_RATES]
    with progress_bar(quiet) as report:
        if report is None and not quiet:
            echo(f"training with {LOSSES[loss]}", err=True)
        for number, (rate, place) in enumerate(zip(LEARNING_RATES, places, strict=True)):
            if RunDirectory(place).notes().get("status") == "finished":
                continue
            changes = [f"data={data}", f"loss={loss}", f"fine_tuning.learning_rate={rate}"]
            recipe = recipe_files.load_recipe("demo", changes)
            observe = partial(_advance, report, LOSSES[loss], number, recipe.fine_tuning.epochs)
            begun = (place / "config.yaml").exists()
            run = Run.resume(place, observe=observe) if begun else Run.begin(recipe, place, observe=observe)
            run.finish()
    chosen = max(places, key=lambda place: read_run(place, "validation").metrics["ndcg@10"])
    return read_run(chosen)


def _advance(report: Any, name: str, number: int, epochs: int, line: dict[str, Any]) -> None:
    if report is not None and "epoch" in line:
        report(f"training with {name}", number * epochs + int(line["epoch"]), len(LEARNING_RATES) * epochs)


def _print_comparison(console: Console, best: dict[str, "FinishedRun"]) -> None:
    from songrank.metrics.comparison import paired_difference

    song, *others = best.values()
    table = TextTable("loss", "learning rate", *map(str.upper, _METRICS), "Δ vs SONG @10, 95 % interval", box=None)
    verdicts: dict[str, list[str]] = {"significantly above": [], "significantly below": [], _LEVEL: []}
    for name, run in zip(LOSSES.values(), best.values(), strict=True):
        cells = [name, run.path.name.rpartition("-")[2], *(f"{run.metrics[metric]:.3f}" for metric in _METRICS)]
        if run in others:
            change = paired_difference(run.per_query["ndcg@10"], song.per_query["ndcg@10"])
            cells.append(f"{change.mean:+.3f} [{change.low:+.3f}, {change.high:+.3f}]")
            level = change.low <= 0 <= change.high
            verdict = _LEVEL if level else "significantly above" if change.mean < 0 else "significantly below"
            verdicts[verdict].append(name)
        table.add_row(*cells)
    why = (
        "A linear model ranks products with grades 0 to 4. It cannot order all of them correctly, so the loss decides "
    )
    why += "which errors it makes; NDCG counts those at the top. Each loss has the same budget. NDCG on test data:"
    console.print(why, end="\n\n")
    console.print(table)
    listed = "; ".join(f"{verdict} {', '.join(names)}" for verdict, names in verdicts.items() if names)
    console.print(f"\nSONG is {listed} (95 %, paired by query).")


def _print_ranking(console: Console, ranked: Path, documents: Path) -> None:
    import polars as pl

    found = pl.read_csv(documents).drop("query", "title")
    rows = pl.read_csv(ranked).join(found, on="product", how="left", maintain_order="left")
    query = rows["query"][0]
    listed = rows.filter(pl.col("query") == query)
    columns = ("rank", "title", "price", "rating", "reviews", "delivery_days", "score")
    table = TextTable(*columns, box=None)
    for row in listed.head(5).select(columns).iter_rows():
        cells = zip(columns, row, strict=True)
        table.add_row(*(f"{cell:.2f}" if name in ("price", "score") else str(cell) for name, cell in cells))
    console.print(f"\nTop 5 of {len(listed)} products for the new query “{query}”, by the model trained with SONG:\n")
    console.print(table, "")


def _has_browser() -> bool:
    """Whether a page would open in a window; text browsers would take the terminal."""
    windowed = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(windowed) and sys.stdout.isatty()
