"""``songrank ensemble``: several runs combined into one model."""

import json
from pathlib import Path
from typing import Annotated

import typer


def ensemble(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Finished runs of one recipe with different seeds.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Directory of the new run.")],
    data: Annotated[Path | None, typer.Option(help="Current path of the data set, if it was moved.")] = None,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:1.")] = "auto",
    overwrite: Annotated[bool, typer.Option(help="Replace an existing run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON.")] = False,
) -> None:
    """Combine runs that differ only in their seeds into one model, which averages their scores.

    Inference costs as much as that of all runs together. The output is a run directory: evaluate, compare, report,
    recommend, rank, label and export accept it. It is evaluated on the splits on which all runs were evaluated.

        songrank train mq2008 seed=0 -o runs/0
        songrank train mq2008 seed=1 -o runs/1
        songrank ensemble runs/0 runs/1 -o runs/all
    """
    from songrank.analysis.ensemble import make_ensemble
    from songrank.analysis.finished_runs import find_runs
    from songrank.cli.training_view import print_results
    from songrank.io.json_files import plain

    named = {run.resolve() for run in runs}
    members = [run for run in find_runs(runs) if run.resolve() in named or run.resolve() != output.resolve()]
    found = make_ensemble(members, output, data=data, device=device, overwrite=overwrite)
    if not found:
        typer.echo("warning: the ensemble is not evaluated, because the runs share no evaluated split", err=True)
    if as_json:
        typer.echo(json.dumps(plain({split: evaluation.values for split, evaluation in found.items()}), indent=2))
        return
    print_results(output, found)
