"""``songrank recommend``: the best items for users, from a trained model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from songrank.errors import UserError

if TYPE_CHECKING:
    import polars as pl

    from songrank.data.ids import Ids
    from songrank.data.source import Job
    from songrank.inference.items import Recommendations

_GOT = {"popular": "got the most popular items", "none": "got nothing"}


def recommend(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, or of a model.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The table to write: .csv or .parquet.")],
    users: Annotated[
        str, typer.Argument(metavar="[INPUT]", help="CSV, TSV or Parquet file of users; all: whom the model knows.")
    ] = "all",
    k: Annotated[int, typer.Option("-k", min=1, help="How many items a user.")] = 10,
    user_column: Annotated[str | None, typer.Option(help="Column of users, if not found by its name.")] = None,
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
    """
    from songrank.cli.progress import progress_bar
    from songrank.data.source import Job
    from songrank.inference.items import FALLBACKS
    from songrank.inference.items import recommend as best_items
    from songrank.inference.model_folder import column_names, open_model
    from songrank.inference.output_tables import check_output, table_writer
    from songrank.inference.tables import id_column
    from songrank.training.build import choose_device

    if fallback not in FALLBACKS:
        raise UserError(f"fallback is {fallback!r}; expected one of {', '.join(FALLBACKS)}")
    check_output(output, overwrite=overwrite)
    folder = open_model(run, choose_device(device))
    folder.need("recommendation")
    assert folder.query_ids is not None
    assert folder.item_ids is not None
    with progress_bar(quiet) as report:
        job = Job(report)
        user, item = folder.called
        called = folder.info.get("called", {}).get("item", "item")
        name, asked = _users(users, user_column, user, folder.query_ids, job)
        name = user if name == item else column_names(name, item)[0]
        items = id_column(folder.item_ids)
        found = best_items(
            folder,
            asked,
            k,
            exclude_seen=not with_seen,
            allow=None if allow is None else _items(allow, called, folder.item_ids, job, needed=True),
            deny=() if deny is None else _items(deny, called, folder.item_ids, job, needed=False),
            fallback=fallback,
        )
        done = 0
        with table_writer(output, overwrite=overwrite) as writer:
            for batch in found:
                writer.write(_frame(batch, (name, item), asked, items))
                done += batch.num_users
                job.report("recommending", done, len(asked))
    if not quiet:
        unseen = int((folder.query_ids.find(asked) < 0).sum())
        strangers = f"; {unseen:,} never seen in training {_GOT[fallback]}" if unseen else ""
        typer.echo(f"{len(asked):,} users{strangers}; wrote {writer.rows:,} rows to {output}")


def _users(users: str, column: str | None, usual: str, known: "Ids", job: "Job") -> tuple[str, "pl.Series"]:
    """What the column of users is called, and whom it holds: whole numbers only if the model's users are such too."""
    import polars as pl

    from songrank.data.recommendation.interactions import USER_NAMES
    from songrank.inference.tables import id_column, read_id_column

    if users == "all":
        if column is not None:
            raise UserError("--user-column names a column of INPUT; name a file of users, or leave it out")
        return usual, id_column(known)
    names, fix = (_plain(usual), *USER_NAMES), "name it: --user-column"
    name, asked = read_id_column(Path(users), column, names, "user", fix, known, job)
    return name or usual, asked if known.kind == "integer" else asked.cast(pl.String)


def _items(file: Path, called: str, known: "Ids", job: "Job", *, needed: bool) -> "pl.Series":
    """The items of a file; some that the model does not know are warned of, all are an error where one is needed."""
    from songrank.data.recommendation.interactions import ITEM_NAMES
    from songrank.inference.tables import read_id_column

    names, fix = (_plain(called), *ITEM_NAMES), f"expected one column, or one called {called}"
    ids = read_id_column(file, None, names, "item", fix, known, job)[1]
    strange = int((known.find(ids) < 0).sum())
    if strange and not (needed and strange == len(ids)):
        typer.echo(f"warning: {file}: {strange:,} of {len(ids):,} items are not known to the model", err=True)
    return ids


def _plain(name: str) -> str:
    """A name as those are that columns are found by."""
    return name.lower().replace(" ", "_")


def _frame(batch: "Recommendations", names: tuple[str, str], users: "pl.Series", items: "pl.Series") -> "pl.DataFrame":
    import polars as pl

    rows = pl.DataFrame(
        {
            names[0]: users.gather(batch.position.numpy()),
            names[1]: items.gather(batch.item.numpy()),
            "score": batch.score.numpy(),
            "rank": batch.rank.numpy(),
            "known": batch.known.numpy(),
        }
    )
    source = pl.when(pl.col("known")).then(pl.lit("model")).otherwise(pl.lit("popular")).alias("source")
    return rows.with_columns(source).drop("known")
