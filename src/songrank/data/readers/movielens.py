"""MovieLens in its three layouts, straight from the zip: ``u.data``, ``ratings.dat`` and ``ratings.csv``.

Each block is parsed by polars; a block in which anything is unusual is read again, line by line, by a plain parser that
either understands it or says which line is wrong. Both are tested to give the same numbers.
"""

import io
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.core.errors import DataError, shown
from songrank.data.content import Content
from songrank.data.preparation.interaction_log import Interactions, to_catalogue
from songrank.data.preparation.interaction_options import RatingOptions
from songrank.io.source import Block, Job, find_sources
from songrank.io.tables.encoding import number_integers

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


def movielens_tabs(source: Path, options: RatingOptions, job: Job, scratch: Path) -> Content:
    """MovieLens-100k."""
    return _movielens(source, TABS, options, job)


def movielens_colons(source: Path, options: RatingOptions, job: Job, scratch: Path) -> Content:
    """MovieLens-1M and 10M."""
    return _movielens(source, COLONS, options, job)


def movielens_commas(source: Path, options: RatingOptions, job: Job, scratch: Path) -> Content:
    """MovieLens-20M, 25M, 32M and the "latest" sets."""
    return _movielens(source, COMMAS, options, job)


def _movielens(source: Path, layout: Layout, options: RatingOptions, job: Job) -> Content:
    files = find_sources(source, [layout.file], layout.file)
    if len(files) > 1:
        raise DataError(f"holds {len(files)} files {layout.file}", f"name one, e.g. {files[0].name}", file=str(source))
    columns: list[list[Array]] = [[], [], [], []]
    for block in files[0].blocks(job):
        for parts, values in zip(columns, parse_ratings(block, layout), strict=True):
            parts.append(values)
    joined = []
    for parts in columns:
        joined.append(np.concatenate(parts))
        parts.clear()  # so that blocks and columns are in memory together one column at a time
    user, user_ids = number_integers(joined[0])
    movie, movie_ids = number_integers(joined[1])
    rating, time = joined[2:]
    del joined
    return to_catalogue(Interactions(user, user_ids, movie, movie_ids, rating, time), options, job)


def parse_ratings(block: Block, layout: Layout) -> tuple[Array, Array, Array, Array]:
    """User, movie (int32), rating (float32) and time (int64) of a block of lines."""
    data, line = block.data, block.line
    if line == 1 and layout.header is not None:
        first, _, data = data.partition(b"\n")
        line = 2
        if first.strip().replace(b'"', b"") != layout.header:
            raise DataError(
                f"the first line is {shown(first)}", f"expected {layout.header.decode()}", file=block.file, line=1
            )
    found = _fast(data, layout)
    return found if found is not None else careful_ratings(data, layout, block.file, line)


def _fast(data: bytes, layout: Layout) -> tuple[Array, Array, Array, Array] | None:
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
    return user.astype(np.int32), movie.astype(np.int32), rating.astype(np.float32), time


def careful_ratings(data: bytes, layout: Layout, file: str, line: int) -> tuple[Array, Array, Array, Array]:
    """The same, line by line: the reference for the fast way, and what names the line that is wrong."""
    rows: list[tuple[int, int, float, int]] = []
    for number, text in enumerate(data.split(b"\n")[:-1], start=line):
        if not text.strip():
            continue
        fields = text.split(layout.separator)
        if len(fields) != len(COLUMNS):
            word = {b"\t": "tabs", b"::": "'::'", b",": "commas"}[layout.separator]
            raise DataError(
                f"has {len(fields)} columns: {shown(text)}",
                f"expected user, movie, rating, timestamp separated by {word}",
                file=file,
                line=number,
            )
        user = _whole("user", fields[0], _MAX_ID, file, number)
        movie = _whole("movie", fields[1], _MAX_ID, file, number)
        time = _whole("timestamp", fields[3], _MAX_TIME, file, number)
        rows.append((user, movie, _rating(fields[2], file, number), time))
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    types = (np.int32, np.int32, np.float32, np.int64)
    user_, movie_, rating_, time_ = (np.array(column, dtype) for column, dtype in zip(columns, types, strict=True))
    return user_, movie_, rating_, time_


def _whole(name: str, field: bytes, most: int, file: str, line: int) -> int:
    if not _WHOLE.fullmatch(field.strip()) or int(field) > most:
        raise DataError(f"{name} is {shown(field)}", f"expected a whole number from 0 to {most}", file=file, line=line)
    return int(field)


def _rating(field: bytes, file: str, line: int) -> float:
    value = float(field) if _NUMBER.fullmatch(field.strip()) else math.nan
    if not 0 <= value <= _MAX_RATING:
        raise DataError(f"rating is {shown(field)}", "expected a number of at least 0", file=file, line=line)
    return value
