"""``songrank evaluate``: metrics of a trained model."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from songrank.cli.printing import TextTable, echo
from songrank.core.errors import UserError
from songrank.core.launch import need_one_process

if TYPE_CHECKING:
    from songrank.analysis.breakdown import Group
    from songrank.analysis.cold_start import Segment


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished run.")],
    split: Annotated[str, typer.Option(help="Split to evaluate: validation or test.")] = "test",
    data: Annotated[Path | None, typer.Option(help="Current path of the data set, if it was moved.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Metric, e.g. recall@20; repeatable.")] = None,
    ties: Annotated[str | None, typer.Option(help="Ranks of tied scores: pessimistic, average or stable.")] = None,
    empty: Annotated[str | None, typer.Option(help="Value without relevant items: skip, zero or one.")] = None,
    gain: Annotated[str | None, typer.Option(help="Gain of labels: exp2 or linear.")] = None,
    candidates: Annotated[int | None, typer.Option(help="Rank N sampled items instead of all.", metavar="N")] = None,
    lists: Annotated[
        int | None, typer.Option(help="Coverage, novelty, … of the first K recommended items.", metavar="K", min=1)
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="Metrics by activity, by popularity, or by the segments in FILE.", metavar="GROUPS|FILE"),
    ] = None,
    cold_items: Annotated[
        bool, typer.Option("--cold-items", help="Metrics of items with and without training pairs apart.")
    ] = False,
    beside: Annotated[
        list[Path] | None,
        typer.Option(help="With --cold-items: another run on the same data; repeatable.", metavar="RUN"),
    ] = None,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:1.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print metrics and policies as JSON.")] = False,
) -> None:
    """Evaluate the model of a finished run on complete lists, or on all items except the user's seen items.

    Metrics are ndcg, dcg, mrr, map, precision, recall and hit_rate, with or without a cutoff such as @10. By default,
    metrics and policies are those of the run's recipe. Nothing is written: the stored evaluation, which
    `songrank compare` reads, does not change. Under torchrun, the processes share the queries.

    For recommendation, --lists 10 adds the coverage, Gini index, novelty and popularity lift of the first 10 items of
    each user. --by activity groups users by their number of training items, --by popularity held-out items by their
    number of training users, with cold items apart, and --by FILE users by a table of user and segment.

    --cold-items ranks items without training pairs (cold) among themselves, and the others (warm) likewise, beside
    baselines, with 95 % intervals of the differences. Prepare the data with --cold-items 0.1 to hold out such items.

        songrank evaluate runs/movielens-1m-song-0 --metric ndcg@10 --metric recall@20
    """
    from songrank.analysis.breakdown import break_down
    from songrank.analysis.cold_start import cold_start
    from songrank.analysis.evaluate import Evaluated
    from songrank.cli.printing import unit_of
    from songrank.cli.together import together
    from songrank.io.json_files import plain

    given = {"metrics": metric or None, "ties": ties, "empty": empty, "gain": gain, "candidates": candidates}
    policies: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if beside and not cold_items:
        raise UserError("--beside is given; expected it with --cold-items only")
    alone = {"--lists": lists is not None, "--by": by is not None, "--cold-items": cold_items}
    if any(alone.values()):
        option = next(name for name, given in alone.items() if given)
        need_one_process(f"songrank evaluate {option}", "start it without torchrun", once=True)
    with together(device) as processes:
        opened = Evaluated.open(run, split, data=data, device=device)
        if any(alone.values()):
            opened.need_recommendation()
        found = opened.evaluate(processes=processes, **policies)
    if not processes.is_first:
        return
    figures = {} if lists is None else opened.list_figures(lists).values()
    groups = [] if by is None else break_down(opened, by, **policies)
    segments = []
    if cold_items:
        others = [Evaluated.open(place, split, data=data, device=device) for place in beside or ()]
        segments = list(cold_start(opened, others, **policies))
    if not as_json:
        echo(found.describe(unit_of(run)))
        _print(figures, groups)
        _print_segments(segments)
        return
    summary = {"split": split, "metrics": found.values, "queries": found.num_queries, "empty": found.num_empty}
    summary |= {"ties": found.ties, "empty_policy": found.empty, "gain": str(found.gain)}
    summary["candidates"] = "all" if found.candidates is None else found.candidates
    if lists is not None:
        summary["lists"] = figures
    if by is not None:
        summary["groups"] = [{"group": group.name, "users": group.users, "metrics": group.json()} for group in groups]
    if cold_items:
        summary["segments"] = [asdict(segment) for segment in segments]
    echo(json.dumps(plain(summary), indent=2))


def _print(figures: dict[str, float], groups: "list[Group]") -> None:
    """The figures of recommended items, and a table of groups."""
    from songrank.cli.printing import wide_console

    if figures:
        width = max(map(len, figures))
        echo("\n" + "\n".join(f"{name:<{width}}  {value:.6f}" for name, value in figures.items()))
    if not groups:
        return
    table = TextTable(box=None, pad_edge=False)
    for at, title in enumerate(["group", "users", *groups[0].means]):
        table.add_column(Text(title), justify="right" if at else "left", no_wrap=at > 1)
    for group in groups:
        cells = [f"{mean:.4f} [{low:.4f}, {high:.4f}]" for mean, low, high in group.means.values()]
        table.add_row(*(Text(cell) for cell in (group.name, f"{group.users:,}", *cells)))
    console = wide_console()
    console.print("", table)
    echo("means with 95 % intervals by Student's t over users")


def _print_segments(segments: "list[Segment]") -> None:
    """A table of methods for each kind of items."""
    from songrank.cli.printing import wide_console

    for segment in segments:
        first, *others = segment.values
        echo(f"\n{segment.name}: {segment.items:,} candidates, {segment.users:,} users with targets")
        table = TextTable(box=None, pad_edge=False)
        for at, title in enumerate(["method", *segment.values[first]]):
            table.add_column(Text(title), justify="right" if at else "left", no_wrap=at > 0)
        table.add_row(Text(first), *(Text(f"{value:.4f}") for value in segment.values[first].values()))
        for other in others:
            cells = [
                f"{segment.values[other][metric]:.4f}  {gap.mean:+.4f} [{gap.low:+.4f}, {gap.high:+.4f}]"
                for metric, gap in segment.differences[other].items()
            ]
            table.add_row(Text(other), *map(Text, cells))
        wide_console().print(table)
    if segments:
        echo("beside other methods: the run minus the method, with 95 % intervals over users")
