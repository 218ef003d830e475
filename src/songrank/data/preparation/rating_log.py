"""Blocks of ratings by users and movies with numbers as ids, put together to an interaction log."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from songrank.core.columns import Array
from songrank.data.preparation.interaction_log import Interactions
from songrank.io.tables.id_columns import number_integers

Ratings = tuple[Array, Array, Array, Array]
"""User, movie (int32), rating (float32) and time (int64) of each row."""


def rating_columns(*columns: Any) -> Ratings:
    """Columns in the types that ratings have."""
    user, movie, rating, time = columns or ((), (), (), ())
    ids = np.asarray(user, np.int32), np.asarray(movie, np.int32)
    return *ids, np.asarray(rating, np.float32), np.asarray(time, np.int64)


def rating_rows(rows: Sequence[tuple[int, int, float, int]]) -> Ratings:
    """Rows as columns."""
    return rating_columns(*zip(*rows, strict=True))


def rating_log(blocks: Iterable[Ratings]) -> Interactions:
    """All blocks in one log; they and its columns are in memory together one column at a time."""
    parts: list[list[Array]] = [list(column) for column in zip(*blocks, strict=True)]
    joined = []
    while parts:
        joined.append(np.concatenate(parts.pop(0)))
    user, user_ids = number_integers(joined[0])
    movie, movie_ids = number_integers(joined[1])
    return Interactions(user, user_ids, movie, movie_ids, joined[2], joined[3])
