"""The Netflix Prize: Kaggle's ``combined_data_*.txt`` and the original ``mv_*.txt``, whose lines have one form.

``17:`` begins the ratings of movie 17; ``1488844,3,2005-09-06`` is a user, a rating and a day.
"""

import io
import re
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl

from songrank.data.catalogue import Interactions, to_catalogue
from songrank.data.content import Content
from songrank.data.encoding import number_integers
from songrank.data.errors import DataError
from songrank.data.options import RatingOptions
from songrank.data.source import Block, Job, find_sources
from songrank.data.storage import Array
from songrank.errors import shown

Columns = tuple[Array, Array, Array, Array]

_MOVIE = re.compile(rb"([0-9]{1,9}):")
_RATING = re.compile(rb"([0-9]{1,9}),([1-5]),([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TYPES = (np.int32, np.int32, np.float32, np.int64)
_DAY = 24 * 60 * 60
_EPOCH = date(1970, 1, 1).toordinal()


def netflix(source: Path, options: RatingOptions, job: Job, scratch: Path) -> Content:
    """All ratings of a folder or archive, movie after movie; times are seconds since 1970, one value a day."""
    files = find_sources(source, ["combined_data_*.txt", "mv_*.txt"], "combined_data_*.txt or mv_*.txt")
    parts: list[list[Array]] = [[], [], [], []]
    for file in files:
        movie: int | None = None
        for block in file.blocks(job):
            columns, movie = parse_netflix(block, movie)
            for part, values in zip(parts, columns, strict=True):
                part.append(values)
    joined = []
    for part in parts:
        joined.append(np.concatenate(part))
        part.clear()
    user, user_ids = number_integers(joined[0])
    item, item_ids = number_integers(joined[1])
    return to_catalogue(Interactions(user, user_ids, item, item_ids, joined[2], joined[3]), options, job)


def parse_netflix(block: Block, movie: int | None) -> tuple[Columns, int | None]:
    """User, movie, rating and time of a block, and the movie that the next block goes on with."""
    fast = _fast(block.data, movie)
    return fast if fast is not None else careful_netflix(block, movie)


def _fast(data: bytes, movie: int | None) -> tuple[Columns, int | None] | None:
    """A block that is exactly as it should be, else None: three columns, where a movie's line has only the first."""
    named = {"first": pl.String, "rating": pl.Int8, "day": pl.String}
    try:
        table = pl.read_csv(
            io.BytesIO(b"0:,,\n" + data.replace(b":\n", b":,,\n")), has_header=False, schema=named, quote_char=None
        )
        table = table.with_columns(
            movie=pl.col("first").str.strip_suffix(":").cast(pl.Int32),
            begins=pl.col("first").str.ends_with(":"),
            day=pl.col("day").str.to_date("%Y-%m-%d", strict=True),
        )
    except pl.exceptions.PolarsError:
        return None
    begins = table["begins"].to_numpy()
    if table.height != data.count(b"\n") + 1 or table["movie"].null_count() or table["first"].null_count():
        return None
    plain = table.filter(~pl.col("begins"))
    if (
        plain["rating"].null_count()
        or plain["day"].null_count()
        or table.height - plain.height != table["rating"].null_count()
    ):
        return None
    numbers = table["movie"].to_numpy()
    if numbers.min() < 0 or (plain.height and not plain["rating"].is_between(1, 5).all()):
        return None
    starts = np.flatnonzero(begins)
    current = numbers[starts].copy()
    current[0] = -1 if movie is None else movie
    of_row = np.repeat(current, np.diff(np.append(starts, table.height)))[~begins]
    if of_row.shape[0] and of_row[0] < 0:
        return None
    time = plain["day"].cast(pl.Int64).to_numpy() * _DAY
    rating = plain["rating"].cast(pl.Float32).to_numpy()
    columns = (numbers[~begins].astype(np.int32), of_row.astype(np.int32), rating, time)
    return columns, None if current[-1] < 0 else int(current[-1])


def careful_netflix(block: Block, movie: int | None) -> tuple[Columns, int | None]:
    """The same, line by line: the reference for the fast way, and what names the line that is wrong."""
    rows: list[tuple[int, int, float, int]] = []
    for line, text in enumerate(block.data.split(b"\n")[:-1], start=block.line):
        text = text.strip()
        if begins := _MOVIE.fullmatch(text):
            movie = int(begins[1])
        elif text:
            rows.append(_rating(text, movie, block.file, line))
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    user, item, rating, time = (np.array(column, dtype) for column, dtype in zip(columns, _TYPES, strict=True))
    return (user, item, rating, time), movie


def _rating(text: bytes, movie: int | None, file: str, line: int) -> tuple[int, int, float, int]:
    found = _RATING.fullmatch(text)
    if found is None:
        raise DataError(
            f"the line is {shown(text)}",
            "expected 'movie:' or 'user,rating,YYYY-MM-DD' with a rating from 1 to 5",
            file=file,
            line=line,
        )
    if movie is None:
        raise DataError("a rating comes before any movie", "expected 'movie:' as the first line", file=file, line=line)
    user, rating, year, month, day = (int(part) for part in found.groups())
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        raise DataError(
            f"the day is {shown(text[-10:])}", "expected a day of the calendar", file=file, line=line
        ) from None
    return user, movie, float(rating), days * _DAY
