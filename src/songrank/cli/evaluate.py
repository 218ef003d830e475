"""``songrank evaluate``: what a trained model is worth, by any metric and policy."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    split: Annotated[str, typer.Option(help="Split to evaluate: validation or test.")] = "test",
    data: Annotated[Path | None, typer.Option(help="Where the run's data set is now, if it was moved.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Metric such as recall@20; may be repeated.")] = None,
    ties: Annotated[str | None, typer.Option(help="pessimistic, average or stable.")] = None,
    empty: Annotated[str | None, typer.Option(help="Queries without relevant items: skip, zero or one.")] = None,
    gain: Annotated[str | None, typer.Option(help="Gain of a label: exp2 or linear.")] = None,
    candidates: Annotated[int | None, typer.Option(help="Rank among so many sampled items instead of all.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Figures and policies as JSON.")] = False,
) -> None:
    """Evaluate the model of a finished run on whole lists, or on the whole catalogue less what was seen.

    Metrics: ndcg, dcg, mrr, map, precision, recall, hit_rate, each with a cutoff such as @10 or without. What is not
    given is as the run's recipe has it.

        songrank evaluate runs/movielens-1m-song-0 --metric ndcg@10 --metric recall@20

    Nothing is written: the run's own evaluation, which `songrank compare` reads, stays as it was.
    """
    from songrank.analysis.evaluate import evaluate_run
    from songrank.io.json_files import plain

    given = {"metrics": metric or None, "ties": ties, "empty": empty, "gain": gain, "candidates": candidates}
    policies: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    found = evaluate_run(run, split, data=data, device=device, **policies)
    if not as_json:
        typer.echo(str(found))
        return
    summary = {"split": split, "metrics": found.values, "queries": found.num_queries, "empty": found.num_empty}
    summary |= {"ties": found.ties, "empty_policy": found.empty, "gain": str(found.gain)}
    summary["candidates"] = "all" if found.candidates is None else found.candidates
    typer.echo(json.dumps(plain(summary), indent=2))
