"""``songrank ensemble``: runs of different seeds as one model."""

import json
from pathlib import Path
from typing import Annotated

import typer


def ensemble(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Finished runs of one recipe, different seeds.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of the new run.")],
    data: Annotated[Path | None, typer.Option(help="Where the runs' data set is now, if it was moved.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    overwrite: Annotated[bool, typer.Option(help="Replace a run that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
) -> None:
    """Make one model of several runs that differ in their seeds: its scores are the mean of theirs.

        songrank train mq2008 seed=0 -o runs/0; songrank train mq2008 seed=1 -o runs/1; …
        songrank ensemble runs/0 runs/1 runs/2 -o runs/all

    It costs as much to use as all of them together. The folder is a run: evaluate, compare, report, recommend, rank,
    label and export take it like any other. It is evaluated on the splits that all of the runs were evaluated on.
    """
    from songrank.analysis.ensemble import make_ensemble
    from songrank.analysis.finished_runs import find_runs
    from songrank.cli.training_view import print_results
    from songrank.io.json_files import plain

    named = {run.resolve() for run in runs}
    members = [run for run in find_runs(runs) if run.resolve() in named or run.resolve() != output.resolve()]
    found = make_ensemble(members, output, data=data, device=device, overwrite=overwrite)
    if not found:
        typer.echo("warning: no split was evaluated in all of the runs, so it is not evaluated either", err=True)
    if as_json:
        typer.echo(json.dumps(plain({split: evaluation.values for split, evaluation in found.items()}), indent=2))
        return
    print_results(output, found)
