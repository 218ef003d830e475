"""``songrank recommend``: the best items for users, from a trained model."""

from pathlib import Path
from typing import Annotated

import typer

from songrank.core.errors import UserError

_GOT = {"popular": "got the most popular items", "none": "got nothing"}


def recommend(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, or of a model.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The table to write: .csv or .parquet.")],
    users: Annotated[
        str, typer.Argument(metavar="[INPUT]", help="CSV, TSV or Parquet file of users; all: whom the model knows.")
    ] = "all",
    k: Annotated[int, typer.Option("-k", min=1, help="How many items a user.")] = 10,
    user_column: Annotated[str | None, typer.Option(help="Column of users, if not found by its name.")] = None,
    histories: Annotated[
        Path | None,
        typer.Option(help="Table of who turned to what, in order: anybody is answered by it. For models of histories."),
    ] = None,
    item_column: Annotated[str | None, typer.Option(help="Column of items of --histories.")] = None,
    time_column: Annotated[
        str | None, typer.Option(help="Column of times of --histories; none: rows are in order.")
    ] = None,
    with_seen: Annotated[bool, typer.Option("--with-seen", help="Also what a user has met in the data.")] = False,
    allow: Annotated[Path | None, typer.Option(help="File of the only items that may be recommended.")] = None,
    deny: Annotated[Path | None, typer.Option(help="File of items that may not be recommended.")] = None,
    fallback: Annotated[str, typer.Option(help="For users never seen: popular, none or error.")] = "popular",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a table that is there.")] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
) -> None:
    """Write the best items for each user that the user has not met yet.

    The table has a column of users and one of items, called as in the data, then score, rank from 1, and source:
    model, or popular for users who were never seen in training. RUN needs no data set.

        songrank recommend runs/movielens-1m-song-0 -o best.parquet
        songrank recommend runs/movielens-1m-song-0 users.csv -k 20 --deny sold-out.txt -o best.csv
        songrank recommend runs/sequences-song-0 --histories todays-clicks.csv -o best.csv
    """
    from songrank.cli.progress import progress_bar
    from songrank.io.tables.table_writer import check_output
    from songrank.serving.open import open_model
    from songrank.serving.recommend_file import recommend_file
    from songrank.serving.recommendations import FALLBACKS

    if fallback not in FALLBACKS:
        raise UserError(f"fallback is {fallback!r}; expected one of {', '.join(FALLBACKS)}")
    if histories is not None and users != "all":
        raise UserError(f"--histories says who is asked about; leave out {users}")
    if histories is not None and fallback != "popular":
        raise UserError(f"--fallback {fallback} is for users who bring no history; leave it out")
    if histories is None and (item_column or time_column):
        raise UserError("--item-column and --time-column name columns of --histories; leave them out")
    if histories is None and users == "all" and user_column is not None:
        raise UserError("--user-column names a column of INPUT; name a file of users, or leave it out")
    with progress_bar(quiet) as progress:
        check_output(output, overwrite=overwrite)
        done = recommend_file(
            open_model(run, device, task="recommendation"),
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
            overwrite=overwrite,
            progress=progress,
            warn=lambda message: typer.echo(f"warning: {message}", err=True),
        )
    if not quiet:
        strangers = f"; {done.new_users:,} never seen in training {_GOT[fallback]}" if done.new_users else ""
        typer.echo(f"{done.queries:,} users{strangers}; wrote {done.rows:,} rows to {output}")
