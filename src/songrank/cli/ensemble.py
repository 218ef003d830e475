"""``songrank ensemble``: several runs combined into one model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from songrank.cli.printing import TextTable, echo
from songrank.core.errors import UserError

if TYPE_CHECKING:
    from songrank.analysis.blend import Blended


def ensemble(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Finished runs on the same data set.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Directory of the new run.")],
    weights: Annotated[
        str | None, typer.Option(help="Weights of a blend, e.g. 0.3,0.7; by default chosen on validation.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="Metric that chooses the weights; by default that of the first run's validation.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Current path of the data set, if it was moved.")] = None,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:1.")] = "auto",
    overwrite: Annotated[bool, typer.Option(help="Replace an existing run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON.")] = False,
) -> None:
    """Combine runs into one model: an ensemble of seeds, or a blend of different models.

    Runs that differ only in their seeds make an ensemble, which averages their scores. Other runs, and all runs with
    --weights or --metric, make a blend: the weighted sum of scores, standardised for each query. The weights maximise
    the metric on the validation split; runs of weight 0 are left out.

    Inference costs as much as that of all runs together. The output is a run directory: evaluate, compare, report,
    recommend, rank, label and export accept it. It is evaluated on the splits on which all runs were evaluated.

        songrank train mq2008 seed=0 -o runs/0
        songrank train mq2008 seed=1 -o runs/1
        songrank ensemble runs/0 runs/1 -o runs/all
        songrank ensemble runs/factors runs/sequence -o runs/blend
    """
    from songrank.analysis.blend import blend_runs
    from songrank.analysis.ensemble import differ_in_seeds, make_ensemble
    from songrank.analysis.finished_runs import find_runs
    from songrank.cli.training_view import print_results
    from songrank.io.json_files import plain

    named = {run.resolve() for run in runs}
    members = [run for run in find_runs(runs) if run.resolve() in named or run.resolve() != output.resolve()]
    told: dict[str, Any] = {"data": data, "device": device, "overwrite": overwrite}
    blended = None
    if weights is None and metric is None and differ_in_seeds(members):
        found = make_ensemble(members, output, **told)
    else:
        given = None if weights is None else _numbers(weights)
        blended = blend_runs(members, output, weights=given, metric=metric, **told)
        found = dict(blended.evaluation)
    if not found:
        what = "ensemble" if blended is None else "blend"
        echo(f"warning: the {what} is not evaluated, because the runs share no evaluated split", err=True)
    if as_json:
        values: dict[str, Any] = {split: evaluation.values for split, evaluation in found.items()}
        if blended is not None:
            values["blend"] = _summary(blended, members)
        echo(json.dumps(plain(values), indent=2))
        return
    if blended is not None:
        _print_weights(blended, members)
    print_results(output, found)


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--weights is {text!r}; expected numbers separated by commas, such as 0.3,0.7") from None


def _summary(blended: "Blended", runs: Sequence[Path]) -> dict[str, Any]:
    """The weights and the values on validation, for JSON."""
    choice = blended.choice
    rows: list[dict[str, Any]] = [
        {"run": str(run), "weight": weight} for run, weight in zip(runs, blended.weights, strict=True)
    ]
    if choice is None:
        return {"members": rows}
    for row, value in zip(rows, choice.alone, strict=True):
        row["alone"] = value
    gain = {"mean": choice.difference.mean, "standard_error": choice.difference.standard_error}
    told = {"metric": choice.metric, "queries": choice.num_queries, "value": choice.value}
    return {"members": rows, **told, "blend_minus_best_member": gain}


def _print_weights(blended: "Blended", runs: Sequence[Path]) -> None:
    """Print the weight of each run, and the values on validation."""
    from songrank.cli.printing import wide_console

    choice = blended.choice
    table = TextTable("run", "weight", *([f"validation {choice.metric}"] if choice else []), box=None, pad_edge=False)
    for number, (run, weight) in enumerate(zip(runs, blended.weights, strict=True)):
        table.add_row(str(run), f"{weight:.2f}", *([f"{choice.alone[number]:.4f}"] if choice else []))
    if choice:
        table.add_row("blend", "", f"{choice.value:.4f}")
    wide_console().print(table)
    if choice:
        gain, best = choice.difference, runs[choice.best_member]
        echo(f"blend − {best}: {gain.mean:+.4f} ± {gain.standard_error:.4f} (standard error)")
