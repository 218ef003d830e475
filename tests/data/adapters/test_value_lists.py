"""Texts and ids from lists, arrays and columns."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from songrank.core.errors import DataError, UserError
from songrank.data.adapters.value_lists import as_texts, id_at, ids_in_order


@pytest.mark.parametrize(
    "kind", [list, tuple, np.array, pd.Series, pl.Series, pa.array], ids=lambda kind: kind.__name__
)
def test_every_container_gives_the_same_texts(kind):
    assert as_texts(kind(["one", "two"])) == ["one", "two"]


@pytest.mark.parametrize(
    "values", [[], [1.0, 2.0], np.zeros((2, 2)), sparse.eye(2), {"a": ["b"]}, pl.DataFrame({"a": ["b"]})]
)
def test_other_values_are_not_texts(values):
    assert as_texts(values) is None


def test_one_text_and_a_missing_text_are_rejected():
    with pytest.raises(DataError, match=r"^X is a string; expected a list of texts: \[X\]$"):
        as_texts("one")
    with pytest.raises(DataError, match=r"^X is None in row 1 \(from 0\); expected a string in each row$"):
        as_texts(["one", None])


@pytest.mark.parametrize(
    "ids", [[3, 1], (3, 1), np.array([3, 1]), pd.Series([3, 1]), pl.Series([3, 1]), range(3, 0, -2)]
)
def test_lists_and_columns_keep_their_order(ids):
    assert list(ids_in_order("users", ids)) == [3, 1]
    assert id_at(ids, 1) == 1
    assert type(id_at(ids, 1)) is int


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (7, "^users is 7; expected a list"),
        ("ab", "^users is 'ab'; expected a list"),
        (np.array(7), "expected a list"),
        ({1, 2}, "^users is a set; expected a list"),
        ({1: 2}, "^users is a dict; expected a list"),
        (np.zeros((2, 2)), r"^users has shape \[2, 2\]; expected one column of ids$"),
        (pl.DataFrame({"user": [1]}), r"^users has shape \[1, 1\]; expected one column of ids$"),
    ],
)
def test_values_without_positions_are_rejected(ids, message):
    with pytest.raises(UserError, match=message):
        ids_in_order("users", ids)
