"""``songrank evaluate``: metrics of a trained model."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished run.")],
    split: Annotated[str, typer.Option(help="Split to evaluate: validation or test.")] = "test",
    data: Annotated[Path | None, typer.Option(help="Current path of the data set, if it was moved.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Metric, e.g. recall@20; repeatable.")] = None,
    ties: Annotated[str | None, typer.Option(help="Ranks of tied scores: pessimistic, average or stable.")] = None,
    empty: Annotated[str | None, typer.Option(help="Value without relevant items: skip, zero or one.")] = None,
    gain: Annotated[str | None, typer.Option(help="Gain of labels: exp2 or linear.")] = None,
    candidates: Annotated[int | None, typer.Option(help="Rank N sampled items instead of all.", metavar="N")] = None,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:1.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print metrics and policies as JSON.")] = False,
) -> None:
    """Evaluate the model of a finished run on complete lists, or on all items except the user's seen items.

    Metrics are ndcg, dcg, mrr, map, precision, recall and hit_rate, with or without a cutoff such as @10. By default,
    metrics and policies are those of the run's recipe. Nothing is written: the stored evaluation, which
    `songrank compare` reads, does not change. Under torchrun, the processes share the queries.

        songrank evaluate runs/movielens-1m-song-0 --metric ndcg@10 --metric recall@20
    """
    from songrank.analysis.evaluate import evaluate_run
    from songrank.cli.printing import unit_of
    from songrank.cli.together import together
    from songrank.io.json_files import plain

    given = {"metrics": metric or None, "ties": ties, "empty": empty, "gain": gain, "candidates": candidates}
    policies: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    with together(device) as processes:
        found = evaluate_run(run, split, data=data, device=device, processes=processes, **policies)
    if not processes.is_first:
        return
    if not as_json:
        typer.echo(found.describe(unit_of(run)))
        return
    summary = {"split": split, "metrics": found.values, "queries": found.num_queries, "empty": found.num_empty}
    summary |= {"ties": found.ties, "empty_policy": found.empty, "gain": str(found.gain)}
    summary["candidates"] = "all" if found.candidates is None else found.candidates
    typer.echo(json.dumps(plain(summary), indent=2))
