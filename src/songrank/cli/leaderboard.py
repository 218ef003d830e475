"""``songrank leaderboard``: baselines, models and losses on your data, with equal time for each."""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from songrank.cli.printing import TextTable, echo, wide_console
from songrank.cli.progress import progress_bar
from songrank.cli.signals import stoppable
from songrank.core.errors import UserError

if TYPE_CHECKING:
    from songrank.analysis.leaderboard import Leaderboard

_HEADS = ("method", "seeds", "s per run")


def leaderboard(
    data: Annotated[Path, typer.Argument(help="Directory of a prepared data set.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Directory of the runs; runs/leaderboard-DATA by default.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Seconds of training per run; by default 15, and 0.5 ms per training pair.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Random seeds, separated by commas.")] = "0",
    methods: Annotated[
        str | None, typer.Option(help="Methods, separated by commas; all for the task by default.")
    ] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Metric, e.g. ndcg@10; repeatable.")] = None,
    split: Annotated[str, typer.Option(help="Split to compare on.")] = "test",
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:1.")] = "auto",
    report: Annotated[bool, typer.Option(help="Also write a report with plots, OUTPUT/report.html.")] = True,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print the result only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
) -> None:
    """Compare baselines, models and losses on your data: does a neural model pay here?

    Recommendation: popularity, EASE, iALS (if implicit is installed), matrix factorisation and a sequence model, each
    with softmax and with SONG, and the recipe auto. Search and labelling: MLPs with several losses. Each run is trained
    within the same time, chooses its checkpoint on validation, and is evaluated once on the split. Differences to EASE
    are paired by query, with 95 % intervals; the report has them as a figure.

        songrank leaderboard data/clicks
        songrank leaderboard data/clicks --budget 600 --seeds 0,1,2 -o runs/leaderboard

    Finished runs are kept: the same command continues after Ctrl-C, and adds methods or seeds. Runs with another
    budget, other metrics or another data set are trained again.
    """
    from songrank.analysis.leaderboard import make_leaderboard

    if as_json and markdown:
        raise UserError("--json and --markdown exclude each other; choose one")
    if budget is not None and not 0 < budget < math.inf:
        raise UserError(f"budget is {budget:g}; expected a number of seconds above 0")
    place = output or Path("runs") / f"leaderboard-{data.name}"
    names = None if methods is None else [name.strip() for name in methods.split(",")]
    current: list[Callable[[], None]] = []

    def stop() -> None:
        for end in current[-1:]:
            end()

    with stoppable(stop) as received, progress_bar(quiet or as_json) as progress:
        try:
            found = make_leaderboard(
                data,
                place,
                budget=budget,
                seeds=_seeds(seeds),
                methods=names,
                metrics=metric,
                split=split,
                device=device,
                say=lambda message: None if quiet or as_json else echo(message, err=True),
                progress=progress,
                stopped=current.append,
            )
        except KeyboardInterrupt:
            echo("stopped; the same command continues", err=True)
            sys.exit(128 + (received or [2])[0])
    if as_json:
        echo(json.dumps(_as_dict(found), indent=2))
    elif markdown:
        echo(_markdown(found))
    else:
        _print(found)
    if report:
        _write_report(found, place, split, device, quiet=quiet or as_json)


def _seeds(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--seeds is {text!r}; expected whole numbers separated by commas, such as 0,1,2") from None


def _rows(found: "Leaderboard") -> list[list[str]]:
    """The table, heads first, best method first."""
    result = found.comparison
    first, reference = result.metrics[0], result.baseline.label
    rows = [[*_HEADS, *result.metrics, f"{first}, difference to {reference}"]]
    for method in result.methods:
        seconds = found.seconds.get(method.label)
        cells = [method.label, str(len({run.seed for run in method.runs})), "" if seconds is None else f"{seconds:.0f}"]
        for summary in result.summaries[method.label].values():
            cells.append(f"{summary.mean:.4f}" + ("" if math.isnan(summary.sd) else f" ± {summary.sd:.4f}"))
        gap = result.differences.get(method.label, {}).get(first)
        cells.append("" if gap is None else f"{gap.mean:+z.4f} [{gap.low:+z.4f}, {gap.high:+z.4f}]")
        rows.append(cells)
    return rows


def _print(found: "Leaderboard") -> None:
    heads, *rows = _rows(found)
    table = TextTable(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="left" if head == "method" else "right")
    for row in rows:
        table.add_row(*row)
    wide_console().print(table)


def _markdown(found: "Leaderboard") -> str:
    heads, *rows = ["| " + " | ".join(row) + " |" for row in _rows(found)]
    return "\n".join([heads, "|" + " --- |" * heads.count(" | ") + " --- |", *rows])


def _as_dict(found: "Leaderboard") -> dict[str, Any]:
    from songrank.io.json_files import plain

    return dict(plain({**found.comparison.figures(), "seconds": found.seconds}))


def _write_report(found: "Leaderboard", place: Path, split: str, device: str, *, quiet: bool) -> None:
    from songrank.analysis.report import write_report

    result = found.comparison
    told: dict[str, Any] = {"split": split, "device": device, "baseline": result.baseline.label, "overwrite": True}
    written = write_report((), place / "report.html", methods=result.methods, **told)
    if not quiet:
        echo(f"wrote {written}", err=True)
