"""Interaction sequences: one line per user, the user id followed by item ids in time order."""

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
    """Read interactions without times and ratings, in file order."""
    files = find_sources(source, ["*.txt", "*.tsv", "*.csv", "*.dat", "*.seq"], "text file with one line per user")
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
    log = Interactions(np.repeat(query, np.concatenate(counts)), query_ids, *items.finish())
    return to_catalogue(log, options, job)


def _parse(block: Block, lines: dict[str, int]) -> list[list[str]]:
    """The user and the items of each line; ``lines`` maps users to lines so far."""
    rows: list[list[str]] = []
    for number, text in block.texts():
        words = text.split()
        if not words:
            continue
        if len(words) == 1:
            block.fail(f"user {words[0]!r} has no items", "expected user and items, separated by spaces", number)
        first = lines.setdefault(words[0], number)
        if first != number:
            block.fail(f"user {words[0]!r} is repeated from line {first:,}", "expected one line per user", number)
        rows.append(words)
    return rows
