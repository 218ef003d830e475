"""Recommendations for the users of a file, or for all known users, written to a table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from songrank.core.csr import CSR
from songrank.core.ids import Ids
from songrank.data.histories import table_histories
from songrank.data.preparation_options import ColumnOptions
from songrank.data.readers.interactions import ITEM_NAMES, USER_NAMES, Collector, InteractionColumns
from songrank.io.source import Job, Progress
from songrank.io.tables.input_table import InputTable, id_column, read_id_column
from songrank.io.tables.table_writer import table_writer
from songrank.models.model_folder import ModelFolder
from songrank.serving.answer_tables import Written, recommendation_frame
from songrank.serving.recommendations import column_names, need_histories, recommend, recommend_after

Warn = Callable[[str], None]


def recommend_file(
    folder: ModelFolder,
    output: Path,
    users: Path | None = None,
    k: int = 10,
    *,
    user_column: str | None = None,
    histories: Path | None = None,
    item_column: str | None = None,
    time_column: str | None = None,
    exclude_seen: bool = True,
    allow: Path | None = None,
    deny: Path | None = None,
    fallback: str = "popular",
    overwrite: bool = False,
    progress: Progress | None = None,
    warn: Warn = lambda message: None,
) -> Written:
    """Write a table of user, item, score, rank and source, which is ``model`` or ``popular``.

    Args:
        folder: of a recommendation task.
        output: CSV or Parquet file to write.
        users: CSV, TSV or Parquet file of user ids; None for all known users.
        k: how many items per user.
        user_column: column of users in ``users`` or ``histories``; None: found by its name.
        histories: instead of ``users``, an interaction log, for a model that reads histories.
        item_column: column of items in ``histories``.
        time_column: column of times in ``histories``; without times, rows are in order.
        exclude_seen: leave out seen items.
        allow: file of the only items that may be recommended.
        deny: file of items that may not be recommended.
        fallback: for new users, as in :func:`songrank.serving.recommend`.
        overwrite: replace an existing file.
        progress: receives progress.
        warn: receives warnings, one line each.

    """
    job, called = Job(progress), folder.info.get("called", {})
    assert folder.query_ids is not None
    assert folder.item_ids is not None
    asked = None
    user, item = column_names(called.get("query", "user"), called.get("item", "item"))
    name = user
    if histories is not None:
        name, asked, lists, met = _histories(histories, (user_column, item_column, time_column), folder, job, warn)
    elif users is not None:
        name, asked = _users(users, user_column, user, folder.query_ids, job)
    name = user if name == item else column_names(name, item)[0]
    limits: dict[str, Any] = {"exclude_seen": exclude_seen}
    for word, file in (("allow", allow), ("deny", deny)):
        if file is not None:
            called_item = called.get("item", "item")
            limits[word] = _items(file, called_item, folder.item_ids, job, warn, needed=word == "allow")
    if histories is not None:
        found = recommend_after(folder, lists, k, met=met, **limits)
    else:
        found = recommend(folder, asked, k, fallback=fallback, **limits)
    user_ids, items = id_column(folder.query_ids) if asked is None else asked, id_column(folder.item_ids)
    done = new_users = 0
    with table_writer(output, overwrite=overwrite) as writer:
        for batch in found:
            writer.write(recommendation_frame([batch], (name, item), user_ids, items))
            done, new_users = done + batch.num_users, new_users + batch.num_new
            job.report("recommending", done, len(user_ids))
    return Written(done, writer.rows, new_users)


def _users(file: Path, column: str | None, usual: str, known: Ids, job: Job) -> tuple[str, pl.Series]:
    """The name of the column of users, and their ids: whole numbers only if the model's users are such too."""
    names, fix = (_plain(usual), *USER_NAMES), "name it: --user-column"
    name, asked = read_id_column(file, column, names, "user", fix, known, job)
    return name or usual, asked if known.kind == "integer" else asked.cast(pl.String)


def _histories(
    file: Path, given: tuple[str | None, str | None, str | None], folder: ModelFolder, job: Job, warn: Warn
) -> tuple[str, pl.Series, CSR, CSR]:
    """The name of the column of users, their ids, histories and seen items."""
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
    names = InteractionColumns.find(table.columns, options, table.name, ("--user-column", None))
    collector = Collector(names)
    for block in table.blocks(names.all):
        collector.add(block.frame, block.file, block.line, block.first)
    log = collector.finish()
    _warn_of_unknown(file, list(log.item_ids), folder.item_ids, warn)
    read, met = table_histories(log, folder.item_ids, folder.info["duplicates"], folder.info.get("min_rating"))
    return names.query, id_column(log.query_ids), read, met


def _items(file: Path, called: str, known: Ids, job: Job, warn: Warn, *, needed: bool) -> pl.Series:
    """The items of a file; unknown ones are a warning, and left to the caller where all are and some are needed."""
    names, fix = (_plain(called), *ITEM_NAMES), f"expected one column, or one called {called}"
    ids = read_id_column(file, None, names, "item", fix, known, job)[1]
    _warn_of_unknown(file, ids, known, warn, unless_all=needed)
    return ids


def _warn_of_unknown(
    file: Path, ids: pl.Series | list[str] | list[int], known: Ids, warn: Warn, *, unless_all: bool = False
) -> None:
    unknown = int((known.find(ids) < 0).sum())
    if unknown and not (unless_all and unknown == len(ids)):
        warn(f"{file}: {unknown:,} of {len(ids):,} items are not known to the model")


def _plain(name: str) -> str:
    """A column name in the form that :func:`find_column` compares."""
    return name.lower().replace(" ", "_")
