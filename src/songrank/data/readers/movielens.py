"""MovieLens in its three layouts, parsed by polars, and line by line if polars fails, for errors with the line."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from songrank.core.errors import shown
from songrank.data.content import Content
from songrank.data.parsers.svmlight.lines import number
from songrank.data.preparation.interaction_log import Ratings, rating_columns, rating_log, rating_rows, to_catalogue
from songrank.data.preparation_options import MovieLensOptions
from songrank.data.readers.movielens_features import add_movielens_features
from songrank.io.source import Block, Job, find_sources, only_source

_WHOLE = re.compile(rb"[0-9]{1,18}")
_MAX_ID = 2**31 - 1
_MAX_TIME = 2**60
_MAX_RATING = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Layout:
    """File name, column separator, and header, if any."""

    file: str
    separator: bytes
    header: bytes | None = None


TABS = Layout("u.data", b"\t")
COLONS = Layout("ratings.dat", b"::")
COMMAS = Layout("ratings.csv", b",", b"userId,movieId,rating,timestamp")
COLUMNS = ("user", "movie", "rating", "timestamp")


def _movielens(layout: Layout, source: Path, options: MovieLensOptions, job: Job, scratch: Path) -> Content:
    files = find_sources(source, [layout.file], layout.file)
    blocks = only_source(files, source, f"files {layout.file}").blocks(job)
    content = to_catalogue(rating_log(parse_ratings(block, layout) for block in blocks), options, job)
    if options.features:
        add_movielens_features(content, source, layout.file, job)
    return content


def parse_ratings(block: Block, layout: Layout) -> Ratings:
    """Parse a block: user, movie (int32), rating (float32) and time (int64)."""
    if block.line == 1 and layout.header is not None:
        first, _, data = block.data.partition(b"\n")
        if first.strip().replace(b'"', b"") != layout.header:
            block.fail(f"the first line is {shown(first)}", f"expected {layout.header.decode()}", 1)
        block = Block(data, 2, block.file)
    return _fast(block.data, layout) or careful_ratings(block, layout)


def _fast(data: bytes, layout: Layout) -> Ratings | None:
    """Parse a regular block with polars, else return None."""
    separator = layout.separator
    if len(separator) > 1:
        if b"\t" in data:
            return None
        data, separator = data.replace(separator, b"\t"), b"\t"
    if b"-" in data or b"+" in data or not data.strip():  # polars accepts "-0"
        return None
    schema = dict(zip(COLUMNS, (pl.Int64, pl.Int64, pl.Float64, pl.Int64), strict=True))
    try:
        table = pl.read_csv(data, has_header=False, schema=schema, separator=separator.decode(), quote_char=None)
    except pl.exceptions.PolarsError:
        return None
    if sum(table.null_count().row(0)) or table.height != data.count(b"\n"):
        return None
    user, movie, rating, time = (table[name].to_numpy() for name in COLUMNS)
    if min(user.min(), movie.min()) < 0 or max(user.max(), movie.max()) > _MAX_ID or time.min() < 0:
        return None
    if time.max() > _MAX_TIME or not bool(((rating >= 0) & (rating <= _MAX_RATING)).all()):
        return None
    return rating_columns(user, movie, rating, time)


def careful_ratings(block: Block, layout: Layout) -> Ratings:
    """Parse line by line: the reference implementation, with error messages."""
    rows: list[tuple[int, int, float, int]] = []
    for line, text in block.lines():
        if not text.strip():
            continue
        fields = text.split(layout.separator)
        if len(fields) != len(COLUMNS):
            word = {b"\t": "tabs", b"::": "'::'", b",": "commas"}[layout.separator]
            fix = f"expected user, movie, rating, timestamp separated by {word}"
            block.fail(f"has {len(fields)} columns: {shown(text)}", fix, line)
        whole = {}
        for at, most in ((0, _MAX_ID), (1, _MAX_ID), (3, _MAX_TIME)):
            if not _WHOLE.fullmatch(fields[at].strip()) or int(fields[at]) > most:
                what = f"{COLUMNS[at]} is {shown(fields[at])}"
                block.fail(what, f"expected a whole number from 0 to {most}", line)
            whole[at] = int(fields[at])
        rating = number(fields[2].strip())
        if rating is None or not 0 <= rating <= _MAX_RATING:
            block.fail(f"rating is {shown(fields[2])}", "expected a number of at least 0", line)
        rows.append((whole[0], whole[1], rating, whole[3]))
    return rating_rows(rows)


movielens_tabs, movielens_colons, movielens_commas = (partial(_movielens, layout) for layout in (TABS, COLONS, COMMAS))
"""Readers of MovieLens-100k; 1M and 10M; 20M, 25M, 32M and the "latest" sets."""
