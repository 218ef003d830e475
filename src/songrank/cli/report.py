"""``songrank report``: one page about a run, or about several."""

from pathlib import Path
from typing import Annotated

import typer

from songrank.cli.compare import runs_to_compare


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs, or folders of such folders.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file; RUN/report.html or report.html if not given.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Where the runs' data set is now, if it was moved.")] = None,
    baseline: Annotated[str | None, typer.Option(help="Label or run of the method to compare the others with.")] = None,
    split: Annotated[str, typer.Option(help="Split whose evaluation it is about.")] = "test",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    overwrite: Annotated[bool, typer.Option(help="Replace a file that is no report.")] = False,
) -> None:
    """Write one HTML page about a run, or about several that are compared.

    It shows metrics with their policies, convergence, NDCG by the size of queries, the loss's memory against the truth,
    and the best and worst queries. It is a single file that needs no network; every figure is in it as data, too.

        songrank report runs/movielens-1m-song-0
        songrank report runs/* --baseline song -o comparison.html

    Runs that differ only in seed and data are one method, and of a folder of runs unfinished ones are left out, as for
    `songrank compare`. What cannot be shown, because data
    or checkpoints are gone, says so on the page.
    """
    from songrank.analysis.report import write_report

    found = runs_to_compare(runs)
    place = write_report(found, output, data=data, baseline=baseline, split=split, device=device, overwrite=overwrite)
    typer.echo(f"wrote {place}")
