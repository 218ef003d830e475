"""Titles, genres and users of MovieLens, in its three layouts, as tables."""

import re
from collections.abc import Callable
from pathlib import Path

import polars as pl

from songrank.core.errors import DataError
from songrank.data.content import Content
from songrank.data.features.attach import attach_features
from songrank.data.features.table import EntityTable
from songrank.io.source import Job, Source, find_sources, only_source

_YEAR = re.compile(r"\(([12][0-9]{3})\)\s*$")
_GENRES = (
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama"),
    *("Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western"),
)
Row = dict[str, str | None]


def _colons(line: str) -> Row:
    movie, rest = line.split("::", 1)
    title, genres = rest.rsplit("::", 1)
    return {"movie": movie, "title": title, "genres": genres}


def _bars(line: str) -> Row:
    movie, title, *_, flags = line.split("|", 5)
    chosen = [genre for genre, flag in zip(_GENRES, flags.split("|"), strict=True) if flag == "1"]
    return {"movie": movie, "title": title, "genres": "|".join(chosen)}


def _commas(line: str) -> Row:
    movie, rest = line.split(",", 1)
    title, genres = rest.rsplit(",", 1)
    return {"movie": movie, "title": title.removeprefix('"').removesuffix('"'), "genres": genres}


def _user_colons(line: str) -> Row:
    user, gender, age, occupation, _ = line.split("::")
    return {"user": user, "gender": gender, "age": age, "occupation": occupation}


def _user_bars(line: str) -> Row:
    user, age, gender, occupation, _ = line.split("|")
    return {"user": user, "gender": gender, "age": age, "occupation": occupation}


_MOVIES: dict[str, tuple[str, Callable[[str], Row]]] = {
    "ratings.dat": ("movies.dat", _colons),
    "u.data": ("u.item", _bars),
    "ratings.csv": ("movies.csv", _commas),
}
_USERS: dict[str, tuple[str, Callable[[str], Row]]] = {
    "ratings.dat": ("users.dat", _user_colons),
    "u.data": ("u.user", _user_bars),
}
_KINDS = {
    "item": {"title": "text", "genres": "multi-valued", "year": "numeric"},
    "user": {"gender": "categorical", "age": "categorical", "occupation": "categorical"},
}


def add_movielens_features(content: Content, source: Path, ratings: str, job: Job) -> None:
    """Add title, year and genres of movies, and gender, age and occupation of users, to the ratings of a layout.

    ``source`` is the directory or archive of the ratings, or the file of ratings itself.
    """
    place = source.parent if source.is_file() and source.suffix.lower() != ".zip" else source
    file, parse = _MOVIES[ratings]
    movies = _rows(only_source(find_sources(place, [file], file), place, f"files {file}"), parse, job)
    years = (_YEAR.search(row["title"] or "") for row in movies)
    for row, year in zip(movies, years, strict=True):
        row["year"] = None if year is None else year[1]
        row["genres"] = None if row["genres"] == "(no genres listed)" else row["genres"]
    tables = {"item": _table(movies, "movie", "item", job)}
    if ratings in _USERS:
        file, parse = _USERS[ratings]
        try:
            found = find_sources(place, [file], file)
        except DataError:  # MovieLens-10M has no users
            found = []
        if found:
            tables["user"] = _table(_rows(found[0], parse, job), "user", "user", job)
    attach_features(content, tables, _KINDS)


def _table(rows: list[Row], column: str, word: str, job: Job) -> EntityTable:
    frame = pl.DataFrame(rows, schema=dict.fromkeys(rows[0], pl.String))
    return EntityTable(frame.with_columns(pl.col(column).cast(pl.Int64)), word, (column,), job)


def _rows(file: Source, parse: Callable[[str], Row], job: Job) -> list[Row]:
    """One row per line; text is UTF-8, or Latin-1 as in the older sets."""
    rows: list[Row] = []
    for block in file.blocks(job):
        for number, data in block.lines():
            try:
                line = data.decode("utf-8")
            except UnicodeDecodeError:
                line = data.decode("latin-1")
            line = line.rstrip("\r\n")
            if not line.strip() or (number == 1 and line.startswith("movieId,")):
                continue
            try:
                rows.append(parse(line))
                int(next(iter(rows[-1].values())) or "")
            except ValueError:
                block.fail(f"is {line[:60]!r}", "expected a line of MovieLens", number)
    if not rows:
        raise DataError("has no rows", "download MovieLens again", file=file.name)
    return rows
