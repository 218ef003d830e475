"""The Netflix Prize: Kaggle's ``combined_data_*.txt`` and the original ``mv_*.txt``, in the same format.

``17:`` starts the ratings of movie 17; ``1488844,3,2005-09-06`` is a user, a rating and a date.
"""

import io
import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl

from songrank.core.errors import DataError, shown
from songrank.data.content import Content
from songrank.data.preparation.interaction_log import Ratings, rating_columns, rating_log, rating_rows, to_catalogue
from songrank.data.preparation_options import RatingOptions
from songrank.io.source import Block, Job, Source, find_sources

_MOVIE = re.compile(rb"([0-9]{1,9}):")
_RATING = re.compile(rb"([0-9]{1,9}),([1-5]),([0-9]{4})-([0-9]{2})-([0-9]{2})")
_DAY = 24 * 60 * 60
_EPOCH = date(1970, 1, 1).toordinal()


def netflix(source: Path, options: RatingOptions, job: Job, scratch: Path) -> Content:
    """Read all ratings of a directory or archive; times are seconds since 1970, one value per day."""
    files = find_sources(source, ["combined_data_*.txt", "mv_*.txt"], "combined_data_*.txt or mv_*.txt")
    if len({file.file_name[:3] for file in files}) > 1:
        raise DataError("contains combined_data_*.txt and mv_*.txt", "expected only one of them", file=str(source))
    return to_catalogue(rating_log(_blocks(files, job)), options, job)


def _blocks(files: Sequence[Source], job: Job) -> Iterator[Ratings]:
    for file in files:
        movie: int | None = None
        for block in file.blocks(job):
            columns, movie = parse_netflix(block, movie)
            yield columns


def parse_netflix(block: Block, movie: int | None) -> tuple[Ratings, int | None]:
    """Parse a block: user, movie, rating and time, and the current movie at its end."""
    return _fast(block.data, movie) or careful_netflix(block, movie)


def _fast(data: bytes, movie: int | None) -> tuple[Ratings, int | None] | None:
    """Parse a regular block with polars, else return None; lines of movies have one column, ratings three."""
    if b",," in data or b",\n" in data:
        return None
    named = dict.fromkeys(("first", "rating", "day"), pl.String)
    text = b"0:,,\n" + data.replace(b":\n", b":,,\n")
    first, rating, day = pl.col("first"), pl.col("rating"), pl.col("day")
    begins = first.str.ends_with(":")
    names_a_movie = begins & rating.is_null() & day.is_null()
    rates_one = ~begins & rating.is_in(["1", "2", "3", "4", "5"]) & (day.str.len_bytes() == 10)
    try:
        table = pl.read_csv(io.BytesIO(text), has_header=False, schema=named, quote_char=None)
        table = table.select(
            begins=begins,
            number=first.str.strip_suffix(":").cast(pl.Int32),
            rating=rating.cast(pl.Float32),
            time=day.str.to_date("%Y-%m-%d").cast(pl.Int64) * _DAY,
            right=first.str.contains("^[0-9]{1,9}:?$") & (names_a_movie | rates_one),
        )
    except pl.exceptions.PolarsError:
        return None
    if table.height != data.count(b"\n") + 1 or not table["right"].fill_null(False).all():
        return None
    starts = np.flatnonzero(table["begins"].to_numpy())
    movies = table["number"].to_numpy()[starts]
    movies[0] = -1 if movie is None else movie
    lengths = np.diff(np.append(starts, table.height)) - 1
    if movies[0] < 0 and lengths[0]:
        return None
    rated = table.filter(~pl.col("begins"))
    columns = rating_columns(rated["number"], np.repeat(movies, lengths), rated["rating"], rated["time"])
    return columns, None if movies[-1] < 0 else int(movies[-1])


def careful_netflix(block: Block, movie: int | None) -> tuple[Ratings, int | None]:
    """Parse line by line: the reference implementation, with error messages."""
    rows: list[tuple[int, int, float, int]] = []
    for line, text in block.lines():
        text = text.strip()
        if not text:
            continue
        if begins := _MOVIE.fullmatch(text):
            movie = int(begins[1])
            continue
        found = _RATING.fullmatch(text)
        if found is None:
            fix = "expected 'movie:' or 'user,rating,YYYY-MM-DD' with a rating from 1 to 5"
            block.fail(f"line is {shown(text)}", fix, line)
        if movie is None:
            block.fail("rating before the first movie", "expected 'movie:' as the first line", line)
        user, rating, year, month, day = map(int, found.groups())
        try:
            days = date(year, month, day).toordinal() - _EPOCH
        except ValueError:
            block.fail(f"date is {shown(text[-10:])}", "expected a valid date", line)
        rows.append((user, movie, float(rating), days * _DAY))
    return rating_rows(rows), movie
