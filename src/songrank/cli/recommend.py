"""``songrank recommend``: the best items for users, from a trained model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from songrank.core.errors import UserError

if TYPE_CHECKING:
    import polars as pl

    from songrank.core.csr import CSR
    from songrank.core.ids import Ids
    from songrank.io.source import Job
    from songrank.models.model_folder import ModelFolder
    from songrank.serving.items import Recommendations

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
    from songrank.core.devices import choose_device
    from songrank.io.source import Job
    from songrank.io.tables.input_table import id_column
    from songrank.io.tables.table_writer import check_output, table_writer
    from songrank.models.model_folder import column_names
    from songrank.serving.items import FALLBACKS, recommend_after
    from songrank.serving.items import recommend as best_items
    from songrank.serving.open import open_model

    if fallback not in FALLBACKS:
        raise UserError(f"fallback is {fallback!r}; expected one of {', '.join(FALLBACKS)}")
    if histories is not None and users != "all":
        raise UserError(f"--histories says who is asked about; leave out {users}")
    if histories is not None and fallback != "popular":
        raise UserError(f"--fallback {fallback} is for users who bring no history; leave it out")
    if histories is None and (item_column or time_column):
        raise UserError("--item-column and --time-column name columns of --histories; leave them out")
    check_output(output, overwrite=overwrite)
    folder = open_model(run, choose_device(device))
    folder.need("recommendation")
    assert folder.query_ids is not None
    assert folder.item_ids is not None
    with progress_bar(quiet) as report:
        job = Job(report)
        user, item = folder.called
        called = folder.info.get("called", {}).get("item", "item")
        if histories is not None:
            name, asked, (lists, met) = _histories(histories, (user_column, item_column, time_column), folder, job)
        else:
            name, asked = _users(users, user_column, user, folder.query_ids, job)
        name = user if name == item else column_names(name, item)[0]
        items = id_column(folder.item_ids)
        options: dict[str, Any] = {
            "exclude_seen": not with_seen,
            "allow": None if allow is None else _items(allow, called, folder.item_ids, job, needed=True),
            "deny": () if deny is None else _items(deny, called, folder.item_ids, job, needed=False),
        }
        if histories is not None:
            found = recommend_after(folder, lists, k, met=met, **options)
        else:
            found = best_items(folder, asked, k, **options, fallback=fallback)
        done = 0
        with table_writer(output, overwrite=overwrite) as writer:
            for batch in found:
                writer.write(_frame(batch, (name, item), asked, items))
                done += batch.num_users
                job.report("recommending", done, len(asked))
    if not quiet:
        unseen = int((folder.query_ids.find(asked) < 0).sum()) if histories is None else 0
        strangers = f"; {unseen:,} never seen in training {_GOT[fallback]}" if unseen else ""
        typer.echo(f"{len(asked):,} users{strangers}; wrote {writer.rows:,} rows to {output}")


def _users(users: str, column: str | None, usual: str, known: "Ids", job: "Job") -> tuple[str, "pl.Series"]:
    """What the column of users is called, and whom it holds: whole numbers only if the model's users are such too."""
    import polars as pl

    from songrank.data.readers.interactions import USER_NAMES
    from songrank.io.tables.input_table import id_column, read_id_column

    if users == "all":
        if column is not None:
            raise UserError("--user-column names a column of INPUT; name a file of users, or leave it out")
        return usual, id_column(known)
    names, fix = (_plain(usual), *USER_NAMES), "name it: --user-column"
    name, asked = read_id_column(Path(users), column, names, "user", fix, known, job)
    return name or usual, asked if known.kind == "integer" else asked.cast(pl.String)


def _histories(
    file: Path, given: tuple[str | None, str | None, str | None], folder: "ModelFolder", job: "Job"
) -> tuple[str, "pl.Series", tuple["CSR", "CSR"]]:
    """What the column of users is called, whom it holds, and what each of them turned to, and met."""
    from songrank.core.errors import DataError
    from songrank.data.histories import table_histories
    from songrank.data.preparation.interaction_options import ColumnOptions
    from songrank.data.readers.interactions import Collector, Names
    from songrank.io.tables.input_table import InputTable, id_column
    from songrank.serving.items import need_histories

    need_histories(folder)
    assert folder.item_ids is not None
    table, told = InputTable(file, job), folder.info.get("called", {})
    usual = [name if (name := told.get(word)) in table.columns else "auto" for word in ("query", "item", "time")]
    if told.get("time", "auto") is None:  # without times in training
        usual[2] = None
    query, item, time = (own or other for own, other in zip(given, usual, strict=True))
    rated = folder.info.get("min_rating") is not None
    label = told.get("label", "auto" if rated else None)  # data sets of one known form do not say
    label = label if label == "auto" or label in table.columns else None
    options = ColumnOptions(query_column=query, item_column=item, label_column=label, time_column=time)
    try:
        names = Names.find(table.columns, options, table.name)
    except DataError as error:
        fix = error.fix.replace("--query-column", "--user-column")
        raise DataError(error.what, fix, file=error.file) from None
    collector = Collector(names)
    for block in table.blocks(names.all):
        collector.add(block.frame, block.file, block.line, block.first)
    log = collector.finish()
    strange = int((folder.item_ids.find(list(log.item_ids)) < 0).sum())
    if strange:
        typer.echo(f"warning: {file}: {strange:,} of {len(log.item_ids):,} items are not known to the model", err=True)
    lists = table_histories(log, folder.item_ids, folder.info["duplicates"], folder.info.get("min_rating"))
    return names.query, id_column(log.query_ids), lists


def _items(file: Path, called: str, known: "Ids", job: "Job", *, needed: bool) -> "pl.Series":
    """The items of a file; some that the model does not know are warned of, all are an error where one is needed."""
    from songrank.data.readers.interactions import ITEM_NAMES
    from songrank.io.tables.input_table import read_id_column

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
