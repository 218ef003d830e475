"""Files with one query a line: its id, then the ids of its items in order of time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.core.errors import DataError
from songrank.data.content import Content
from songrank.data.preparation.interaction_log import Interactions, to_catalogue
from songrank.data.preparation_options import SequenceOptions
from songrank.io.source import Block, Job, find_sources
from songrank.io.tables.id_columns import IdColumn


def sequences(source: Path, options: SequenceOptions, job: Job, scratch: Path) -> Content:
    """Interactions without times and ratings, in the order in which they stand."""
    files = find_sources(source, ["*.txt", "*.tsv", "*.csv", "*.dat", "*.seq"], "text file with one user a line")
    if len(files) > 1:
        raise DataError(f"holds {len(files)} text files", f"name one, e.g. {files[0].name}", file=str(source))
    users, items, counts = IdColumn(), IdColumn(), []
    lines: dict[str, int] = {}
    file = replace(files[0], encoding=options.encoding)
    for block in file.blocks(job):
        users_here, items_here, count = _parse(block, lines)
        users.add(users_here)
        items.add(items_here)
        counts.append(count)
    query, query_ids = users.finish()
    item, item_ids = items.finish()
    rows = np.repeat(query, np.concatenate(counts))
    return to_catalogue(Interactions(rows, query_ids, item, item_ids), options, job)


def _parse(block: Block, lines: dict[str, int]) -> tuple[pl.Series, pl.Series, Array]:
    """Ids of the queries of a block, ids of all their items, and how many items each has."""
    users: list[str] = []
    items: list[str] = []
    counts: list[int] = []
    for number, text in block.texts():
        words = text.split()
        if not words:
            continue
        if len(words) == 1:
            block.fail(f"user {words[0]!r} has no items", "expected the user, then items, separated by spaces", number)
        first = lines.setdefault(words[0], number)
        if first != number:
            block.fail(f"user {words[0]!r} stands on line {first:,} already", "expected one line a user", number)
        users.append(words[0])
        items.extend(words[1:])
        counts.append(len(words) - 1)
    return pl.Series(users, dtype=pl.String), pl.Series(items, dtype=pl.String), np.array(counts, np.int64)
