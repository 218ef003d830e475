"""Files with one query per line: its id, then the ids of its items in order of time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.data.content import Content
from songrank.data.preparation.interaction_log import Interactions, to_catalogue
from songrank.data.preparation_options import SequenceOptions
from songrank.io.source import Block, Job, find_sources, only_source
from songrank.io.tables.id_columns import IdColumn


def sequences(source: Path, options: SequenceOptions, job: Job, scratch: Path) -> Content:
    """Interactions without times and ratings, in the order of the file."""
    files = find_sources(source, ["*.txt", "*.tsv", "*.csv", "*.dat", "*.seq"], "text file with one user a line")
    file = replace(only_source(files, source, "text files"), encoding=options.encoding)
    users, items = IdColumn(), IdColumn()
    counts: list[Array] = []
    lines: dict[str, int] = {}
    for block in file.blocks(job):
        rows = _parse(block, lines)
        counts.append(np.array([len(row) - 1 for row in rows], np.int64))
        users.add(pl.Series([row[0] for row in rows], dtype=pl.String))
        items.add(pl.Series([item for row in rows for item in row[1:]], dtype=pl.String))
    query, query_ids = users.finish()
    return to_catalogue(
        Interactions(np.repeat(query, np.concatenate(counts)), query_ids, *items.finish()), options, job
    )


def _parse(block: Block, lines: dict[str, int]) -> list[list[str]]:
    """The user and the items of each line; ``lines`` is the line of every user so far."""
    rows: list[list[str]] = []
    for number, text in block.texts():
        words = text.split()
        if not words:
            continue
        if len(words) == 1:
            block.fail(f"user {words[0]!r} has no items", "expected the user, then items, separated by spaces", number)
        first = lines.setdefault(words[0], number)
        if first != number:
            block.fail(f"user {words[0]!r} stands on line {first:,} already", "expected one line a user", number)
        rows.append(words)
    return rows
