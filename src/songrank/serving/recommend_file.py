"""Batch recommendations for the users of a file, or for all known users."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from songrank.core.csr import CSR
from songrank.core.ids import Ids
from songrank.core.processes import ALONE, Processes
from songrank.core.text import counted
from songrank.data.histories import table_histories
from songrank.data.preparation_options import ColumnOptions
from songrank.data.readers.interactions import ITEM_NAMES, USER_NAMES, Collector, InteractionColumns
from songrank.io.source import Job, Progress
from songrank.io.tables.input_table import InputTable, id_column, read_id_column
from songrank.io.tables.table_writer import table_writer
from songrank.models.model_folder import ModelFolder
from songrank.serving.answer_tables import Written, recommendation_frame
from songrank.serving.item_names import title_column
from songrank.serving.recommendations import column_names, history_item_ids, known_ids, recommend, recommend_after

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
    names: Path | None = None,
    name_column: str | None = None,
    overwrite: bool = False,
    escape: bool = False,
    progress: Progress | None = None,
    warn: Warn = lambda message: None,
    processes: Processes = ALONE,
) -> Written:
    """Write a table of user, item, score, rank and source; see ``songrank recommend`` for the options.

    ``users`` is a CSV, TSV or Parquet file of user ids, which may repeat; None for all known users; ``histories`` is
    an interaction log instead, for models of histories. ``warn`` is called with one-line warnings;
    ``escape`` puts an apostrophe before texts that spreadsheets read as formulas. Several
    ``processes`` share the users: each reads the files, and writes the rows of a range of the users.
    """
    job, called = Job(progress), folder.info.get("called", {})
    with processes.agreed():
        query_ids, item_ids = known_ids(folder)
        called_item, asked = called.get("item", "item"), None
        user, item = column_names(called.get("query", "user"), called_item)
        limits: dict[str, Any] = {"exclude_seen": exclude_seen, "processes": processes}
        name = user
        if histories is not None:
            name, asked, lists, met = _histories(histories, (user_column, item_column, time_column), folder, job, warn)
        elif users is not None:
            name, rows = _users(users, user_column, user, query_ids, job)
            asked = rows.unique(maintain_order=True)
            if len(asked) < len(rows):
                distinct = counted(len(asked), "distinct users")
                warn(f"{users}: {len(rows):,} rows have {distinct}; each is answered once")
        name = user if name == item else column_names(name, item)[0]
        for word, file in (("allow", allow), ("deny", deny)):
            if file is not None:
                usual, fix = (_plain(called_item), *ITEM_NAMES), f"expected a single column, or a column {called_item}"
                limits[word] = read_id_column(file, None, usual, "item", fix, item_ids, job)[1]
                _warn_of_unknown(file, limits[word], item_ids, warn, unless_all=word == "allow")
        titles = None
        if names is not None:
            named = None if histories is not None else item_column
            titles = title_column(names, folder, output, warn, item_column=named, name_column=name_column)
            titles = titles.alias("name") if "title" in (name, item) else titles
        if histories is not None:
            found = recommend_after(folder, lists, k, met=met, **limits)
        else:
            found = recommend(folder, asked, k, fallback=fallback, **limits)
    asked, items = id_column(query_ids) if asked is None else asked, id_column(item_ids)
    done = new_users = 0
    with table_writer(output, overwrite=overwrite, processes=processes, escape=escape) as writer:
        for batch in found:
            writer.write(recommendation_frame([batch], (name, item), asked, items, titles))
            done, new_users = done + batch.num_users, new_users + batch.num_new
            job.report("recommending", done, max(done, len(asked) // processes.world))
        if not done:
            writer.write(recommendation_frame([], (name, item), asked, items, titles))
    return Written(done, writer.rows, new_users).total(processes)


def _users(file: Path, column: str | None, usual: str, known: Ids, job: Job) -> tuple[str, pl.Series]:
    """The name of the user column, and the ids, as integers only if the model has integer user ids."""
    names, fix = (_plain(usual), *USER_NAMES), "pass --user-column"
    name, asked = read_id_column(file, column, names, "user", fix, known, job)
    return name or usual, asked if known.kind == "integer" else asked.cast(pl.String)


def _histories(
    file: Path, given: tuple[str | None, str | None, str | None], folder: ModelFolder, job: Job, warn: Warn
) -> tuple[str, pl.Series, CSR, CSR]:
    """The name of the user column, the user ids, histories and seen items."""
    item_ids, table = history_item_ids(folder), InputTable(file, job)
    options = history_columns(folder, table.columns, given)
    names = InteractionColumns.find(table.columns, options, table.name)
    collector = Collector(names)
    for block in table.blocks(names.all):
        collector.add(block)
    log = collector.finish()
    _warn_of_unknown(file, list(log.item_ids), item_ids, warn)
    read, met = table_histories(log, item_ids, folder.info["duplicates"], folder.info.get("min_rating"))
    return names.query, id_column(log.query_ids), read, met


def history_columns(
    folder: ModelFolder, columns: Sequence[str], given: Sequence[str | None] = (None, None, None)
) -> ColumnOptions:
    """Columns of users, items and times: the ``given`` ones, those of training, or detected by name."""
    told, rated = folder.info.get("called", {}), folder.info.get("min_rating") is not None
    label = told.get("label", "auto" if rated else None)  # not recorded for data sets with a fixed format
    names = {"label_column": label if label == "auto" or label in columns else None}
    for word, role, own in zip(("user", "item", "time"), ("query", "item", "time"), given, strict=True):
        usual = told.get(role, "auto")
        names[f"{word}_column"] = own or (usual if usual is None or usual in columns else "auto")
    return ColumnOptions(**names)


def _warn_of_unknown(
    file: Path, ids: pl.Series | list[str] | list[int], known: Ids, warn: Warn, *, unless_all: bool = False
) -> None:
    """Warn about unknown items; if all are unknown but needed, :func:`recommend` raises."""
    unknown = int((known.find(ids) < 0).sum())
    if unknown and not (unless_all and unknown == len(ids)):
        warn(f"{file}: {unknown:,} of {len(ids):,} items are unknown to the model")


def _plain(name: str) -> str:
    """Normalise a column name for :func:`find_column`."""
    return name.lower().replace(" ", "_")
