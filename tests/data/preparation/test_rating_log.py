"""Ratings from blocks."""

import numpy as np

from songrank.data.preparation.rating_log import rating_columns, rating_log, rating_rows

ROWS = [(7, 30, 4.5, 100), (2, 10, 1.0, 2**40), (7, 10, 3.0, 5)]


def test_blocks_of_any_size_are_one_log():
    for cuts in ([3], [1, 2], [1, 1, 1]):
        rows = iter(ROWS)
        log = rating_log([rating_rows([next(rows) for _ in range(size)]) for size in cuts])
        users = [log.query_ids[int(at)] for at in log.query]
        movies = [log.item_ids[int(at)] for at in log.item]
        assert list(zip(users, movies, log.label.tolist(), log.time.tolist(), strict=True)) == ROWS


def test_no_rows_have_the_types_of_ratings():
    types = (np.int32, np.int32, np.float32, np.int64)
    assert (
        [column.dtype for column in rating_columns()] == [column.dtype for column in rating_rows(ROWS)] == list(types)
    )
