"""``songrank recommend``: the top items of users, from a trained model."""

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from songrank.cli.printing import echo
from songrank.core.errors import UserError

if TYPE_CHECKING:
    from songrank.models.model_folder import ModelFolder

_GOT = {"popular": "received the most popular items", "none": "received no items"}


def recommend(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a finished run or of a model.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Table .csv or .parquet, or directory of Parquet files.")
    ],
    users: Annotated[
        str, typer.Argument(metavar="[INPUT]", help="CSV, TSV or Parquet file of users; all: all users of training.")
    ] = "all",
    k: Annotated[int, typer.Option("-k", min=1, help="Number of items per user.")] = 10,
    user_column: Annotated[str | None, typer.Option(help="Column of users; by default found by its name.")] = None,
    histories: Annotated[
        Path | None,
        typer.Option(help="Interaction log of known or new users, ordered by time; for models of histories."),
    ] = None,
    item_column: Annotated[str | None, typer.Option(help="Column of items in --histories, or else in --names.")] = None,
    time_column: Annotated[
        str | None, typer.Option(help="Column of times in --histories; none: the rows are ordered.")
    ] = None,
    with_seen: Annotated[bool, typer.Option("--with-seen", help="Include the user's seen items.")] = False,
    allow: Annotated[Path | None, typer.Option(help="File of allowed items; no others are recommended.")] = None,
    deny: Annotated[Path | None, typer.Option(help="File of items that are never recommended.")] = None,
    fallback: Annotated[str, typer.Option(help="For new (cold-start) users: popular, none or error.")] = "popular",
    names: Annotated[
        Path | None, typer.Option(help="Table of item ids and titles; the output gets a column of titles.")
    ] = None,
    name_column: Annotated[str | None, typer.Option(help="Column of names in --names.")] = None,
    new_items: Annotated[
        Path | None, typer.Option(help="Table of items with features; its new items are recommended, too.")
    ] = None,
    last_checkpoint: Annotated[
        bool,
        typer.Option(
            "--last-checkpoint", help="Use the best weights so far of a stopped or diverged run, and its data."
        ),
    ] = False,
    device: Annotated[str, typer.Option(help="Device: auto, cpu, cuda or cuda:1.")] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing table.")] = False,
    escape_formulas: Annotated[
        bool, typer.Option("--escape-formulas", help="CSV: put ' before texts that spreadsheets read as formulas.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")] = False,
) -> None:
    """Write the top items of each user; seen items are excluded.

    The output has a column of users and one of items, with the names of the training data, then score, rank (from 1)
    and source: model, or popular for new (cold-start) users. The data set of RUN is not needed. Under torchrun, the
    processes share the users.

        songrank recommend runs/movielens-1m-song-0 -o best.parquet
        songrank recommend runs/movielens-1m-song-0 users.csv -k 20 --deny sold-out.txt -o best.csv
        songrank recommend runs/movielens-1m-song-0 --names movies.csv -o best.csv
        songrank recommend runs/sequences-song-0 --histories todays-clicks.csv -o best.csv
        songrank recommend runs/recommendation-song-0 --new-items new.csv -o best.csv
    """
    from songrank.cli.progress import progress_bar
    from songrank.cli.together import together
    from songrank.core.text import counted
    from songrank.io.tables.table_writer import check_escape, check_table_output
    from songrank.serving.open import open_model
    from songrank.serving.recommend_file import recommend_file
    from songrank.serving.recommendations import FALLBACKS

    if fallback not in FALLBACKS:
        raise UserError(f"fallback is {fallback!r}; expected one of {', '.join(FALLBACKS)}")
    if histories is not None and users != "all":
        raise UserError(f"--histories already selects the users; leave out {users}")
    if histories is not None and fallback != "popular":
        raise UserError(f"--fallback {fallback} is for users without a history; leave it out with --histories")
    if histories is None and (time_column or (item_column and names is None)):
        raise UserError("--item-column and --time-column need --histories")
    if names is None and name_column:
        raise UserError("--name-column needs --names")
    if histories is None and users == "all" and user_column is not None:
        raise UserError("--user-column needs INPUT, a file of users")
    with ExitStack() as stack, together(device) as processes, progress_bar(quiet or not processes.is_first) as progress:
        check_table_output(output, overwrite=overwrite)
        check_escape(output, escape=escape_formulas)
        if last_checkpoint:
            run = last_model(run, Path(stack.enter_context(TemporaryDirectory(prefix="songrank-"))))
        folder, first = open_model(run, device, task="recommendation"), processes.is_first
        if new_items is not None:
            folder = with_new_items(folder, new_items, quiet=quiet or not first)
        done = recommend_file(
            folder,
            output,
            None if users == "all" else Path(users),
            k,
            user_column=user_column,
            histories=histories,
            item_column=item_column,
            time_column=time_column,
            exclude_seen=not with_seen,
            allow=allow,
            deny=deny,
            fallback=fallback,
            names=names,
            name_column=name_column,
            overwrite=overwrite,
            escape=escape_formulas,
            progress=progress,
            warn=lambda message: echo(f"warning: {message}", err=True) if processes.is_first else None,
            processes=processes,
        )
    if not quiet and processes.is_first:
        new = f"; {counted(done.new_users, 'new users')} {_GOT[fallback]}" if done.new_users else ""
        echo(f"{counted(done.queries, 'users')}{new}; wrote {counted(done.rows, 'rows')} to {output}")


def with_new_items(folder: "ModelFolder", table: Path, *, quiet: bool) -> "ModelFolder":
    """The model with the new items of a table; report their number, and the number of unknown values."""
    from songrank.core.text import counted
    from songrank.serving.new_ids import add_ids

    found, new, unknown = add_ids(folder, "item", table)
    for column, count in {} if quiet else unknown.items():
        echo(f"warning: {table}: {counted(count, 'values')} of {column} unknown in training", err=True)
    if not quiet:
        echo(f"{counted(new, 'new items')} from {table}", err=True)
    return found


def last_model(run: Path, folder: Path) -> Path:
    """Write the weights of a run's last checkpoint to a model folder, and report their step."""
    from songrank.training.run import Run

    step = Run.write_last_checkpoint(run, folder)
    echo(f"{run}: the best weights up to the checkpoint at step {step:,} are used", err=True)
    return folder
