"""Batch lists of similar items or users, for a file of ids or for all of them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.core.text import counted
from songrank.data.readers.interactions import ITEM_NAMES, USER_NAMES
from songrank.io.source import Job, Progress
from songrank.io.tables.input_table import id_column, read_id_column
from songrank.io.tables.table_writer import table_writer
from songrank.models.model_folder import ModelFolder
from songrank.serving.answer_tables import Written
from songrank.serving.item_names import title_column
from songrank.serving.recommendations import Recommendations, known_ids
from songrank.serving.similar import similar_items, similar_users


def similar_file(
    folder: ModelFolder,
    output: Path,
    asked: Path | None = None,
    k: int = 10,
    *,
    users: bool = False,
    column: str | None = None,
    names: Path | None = None,
    item_column: str | None = None,
    name_column: str | None = None,
    overwrite: bool = False,
    escape: bool = False,
    progress: Progress | None = None,
    warn: Callable[[str], None] = lambda message: None,
) -> Written:
    """Write a table of item, similar item, score and rank, or of users; see ``songrank similar`` for the options.

    ``asked`` is a CSV, TSV or Parquet file of ids, which may repeat; None for all known ones.
    """
    job, called = Job(progress), folder.info.get("called", {})
    word, role, usual = ("user", "query", USER_NAMES) if users else ("item", "item", ITEM_NAMES)
    known, name, ids = known_ids(folder)[0 if users else 1], called.get(role) or word, None
    name = word if name in ("score", "rank", "title") else name
    if asked is not None:
        _, rows = read_id_column(
            asked, column, (name.lower().replace(" ", "_"), *usual), word, "pass --column", known, job
        )
        ids = (rows if known.kind == "integer" else rows.cast(pl.String)).unique(maintain_order=True)
        if len(ids) < len(rows):
            warn(f"{asked}: {len(rows):,} rows have {counted(len(ids), f'distinct {word}s')}; each is answered once")
    titles = None
    if names is not None:
        titles = title_column(names, folder, output, warn, item_column=item_column, name_column=name_column)
    found = (similar_users if users else similar_items)(folder, ids, k)
    everything = id_column(known)
    numbers = np.arange(len(known)) if ids is None else known.find(ids).numpy()
    done = 0
    with table_writer(output, overwrite=overwrite, escape=escape) as writer:
        for batch in found:
            writer.write(similar_frame(batch, name, numbers, everything, titles))
            done += batch.num_users
            job.report("comparing", done, len(numbers))
    return Written(done, writer.rows)


def similar_frame(
    batch: Recommendations, name: str, numbers: Array, ids: pl.Series, titles: pl.Series | None = None
) -> pl.DataFrame:
    """Table of item, similar item, score and rank; ``numbers`` are the indices of the requested items.

    With ``titles``, the title of each of the two follows its id.
    """
    own, other = numbers[batch.position.numpy()], batch.item.numpy()
    columns = {name: ids.gather(own), f"similar_{name}": ids.gather(other)}
    if titles is not None:
        told = {titles.name: titles.gather(own), f"similar_{titles.name}": titles.gather(other)}
        (first, own_ids), (second, other_ids) = columns.items()
        (title, own_titles), (like, other_titles) = told.items()
        columns = {first: own_ids, title: own_titles, second: other_ids, like: other_titles}
    return pl.DataFrame({**columns, "score": batch.score.numpy(), "rank": batch.rank.numpy()})
