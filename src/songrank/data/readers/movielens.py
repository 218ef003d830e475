"""MovieLens in its three layouts, straight from the zip: ``u.data``, ``ratings.dat`` and ``ratings.csv``.

Each block is parsed by polars; a block in which anything is unusual is read again, line by line, by a plain parser that
either understands it or says which line is wrong. Both are tested to give the same numbers.
"""

import io
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from songrank.core.errors import DataError, shown
from songrank.data.content import Content
from songrank.data.preparation.interaction_log import Ratings, rating_columns, rating_log, rating_rows, to_catalogue
from songrank.data.preparation_options import RatingOptions
from songrank.io.source import Block, Job, find_sources

_WHOLE = re.compile(rb"[0-9]{1,18}")
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MAX_ID = 2**31 - 1
_MAX_TIME = 2**60
_MAX_RATING = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Layout:
    """How MovieLens writes ratings: the file's name, what separates columns, and whether the first line names them."""

    file: str
    separator: bytes
    header: bytes | None = None


TABS = Layout("u.data", b"\t")
COLONS = Layout("ratings.dat", b"::")
COMMAS = Layout("ratings.csv", b",", b"userId,movieId,rating,timestamp")
COLUMNS = ("user", "movie", "rating", "timestamp")


def _movielens(source: Path, layout: Layout, options: RatingOptions, job: Job) -> Content:
    files = find_sources(source, [layout.file], layout.file)
    if len(files) > 1:
        raise DataError(f"holds {len(files)} files {layout.file}", f"name one, e.g. {files[0].name}", file=str(source))
    blocks = (parse_ratings(block, layout) for block in files[0].blocks(job))
    return to_catalogue(rating_log(blocks), options, job)


def parse_ratings(block: Block, layout: Layout) -> Ratings:
    """User, movie (int32), rating (float32) and time (int64) of a block of lines."""
    data, line = block.data, block.line
    if line == 1 and layout.header is not None:
        first, _, data = data.partition(b"\n")
        line = 2
        if first.strip().replace(b'"', b"") != layout.header:
            block.fail(f"the first line is {shown(first)}", f"expected {layout.header.decode()}", 1)
    return _fast(data, layout) or careful_ratings(Block(data, line, block.file), layout)


def _fast(data: bytes, layout: Layout) -> Ratings | None:
    """All columns of a block that is exactly as it should be, else None."""
    separator = layout.separator
    if len(separator) > 1:
        if b"\t" in data:
            return None
        data, separator = data.replace(separator, b"\t"), b"\t"
    if b"-" in data or b"+" in data or not data.strip():  # "-0" is a number to polars, not to us
        return None
    schema = dict(zip(COLUMNS, (pl.Int64, pl.Int64, pl.Float64, pl.Int64), strict=True))
    try:
        table = pl.read_csv(
            io.BytesIO(data), has_header=False, schema=schema, separator=separator.decode(), quote_char=None
        )
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
    """The same, line by line: the reference for the fast way, and what names the line that is wrong."""
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
        rating = float(fields[2]) if _NUMBER.fullmatch(fields[2].strip()) else math.nan
        if not 0 <= rating <= _MAX_RATING:
            block.fail(f"rating is {shown(fields[2])}", "expected a number of at least 0", line)
        rows.append((whole[0], whole[1], rating, whole[3]))
    return rating_rows(rows)


def _reader(layout: Layout) -> Callable[[Path, RatingOptions, Job, Path], Content]:
    return lambda source, options, job, scratch: _movielens(source, layout, options, job)


movielens_tabs, movielens_colons, movielens_commas = map(_reader, (TABS, COLONS, COMMAS))
"""Readers of MovieLens-100k; of 1M and 10M; of 20M, 25M, 32M and the "latest" sets."""
