"""``songrank report``: an HTML page about one run or several runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from songrank.cli.compare import Baseline, Runs, runs_to_compare
from songrank.cli.printing import echo


def report(
    runs: Runs,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Output file; RUN/report.html or, for several runs, report.html by default."
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Current path of the data set, if it was moved.")] = None,
    baseline: Baseline = None,
    baseline_model: Annotated[
        list[str] | None,
        typer.Option(help="Baseline for recommendation to compare with: ease, ials or popularity; repeatable."),
    ] = None,
    split: Annotated[str, typer.Option(help="Split to report on.")] = "test",
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:1.")] = "auto",
    overwrite: Annotated[bool, typer.Option(help="Replace a file that was not written by this command.")] = False,
) -> None:
    """Write an HTML page about one run, or a comparison of several runs.

    The page shows metrics with their policies, convergence, the metric by query size, the memory of the loss beside
    exact values, and the best and worst queries. It is a single file that works offline and contains all figures as
    data. Runs are grouped and unfinished runs are skipped as in `songrank compare`. Parts that need a missing data set
    or checkpoint are replaced by the reason.

        songrank report runs/movielens-1m-song-0
        songrank report runs/* --baseline song -o comparison.html
        songrank report runs/clicks --baseline-model ease --baseline-model popularity
    """
    from songrank.analysis.report import write_report
    from songrank.baselines.evaluate import check_baseline

    for name in baseline_model or ():
        check_baseline(name)
    found = runs_to_compare(runs)
    told: dict[str, Any] = {
        "data": data,
        "baseline": baseline,
        "split": split,
        "device": device,
        "overwrite": overwrite,
    }
    place = write_report(found, output, baseline_models=baseline_model or (), **told)
    echo(f"wrote {place}")
