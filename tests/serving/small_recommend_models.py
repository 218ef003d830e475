"""Helpers that tests of several modules share."""

import pytest

from songrank.serving import open_model
from songrank.serving.recommendations import recommend

TITLES = [f'Film {number}, "The" — été' if number % 3 else f"Film {number}" for number in range(30)]

USERS = [100 + 3 * number for number in range(20)]


def by_library(model, users, k, **more):
    """Rows as the library has them: user, title, score, rank, source."""
    folder = open_model(model)
    rows = []
    for batch in recommend(folder, users, k, **more):
        columns = (batch.position, batch.item, batch.score, batch.rank, batch.known)
        for position, item, score, rank, known in zip(*(column.tolist() for column in columns), strict=True):
            source = "model" if known else "popular"
            rows.append((users[position], folder.item_ids[item], pytest.approx(score, abs=1e-5), rank, source))
    return rows
