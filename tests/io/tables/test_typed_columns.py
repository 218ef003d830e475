"""Columns of tables in the type that is needed."""

import math

import numpy as np
import polars as pl
import pytest

from songrank.core.errors import DataError
from songrank.io.tables.typed_columns import read_column, read_features, read_ids, read_labels


@pytest.mark.parametrize("wrong", range(7))
def test_the_first_wrong_row_is_named_wherever_it_stands(wrong):
    column = pl.Series("rating", ["1"] * wrong + ["x"] * (7 - wrong))
    with pytest.raises(DataError, match=f"^a.csv, line {wrong + 2}: rating is 'x'; expected a number$"):
        read_column(read_labels, column, "expected a number", "a.csv", line=lambda row: row + 2)
    with pytest.raises(DataError, match=f"^a: row {10 + wrong + 1}: rating is 'x'; expected a number$"):
        read_column(read_labels, column, "expected a number", "a", first=10)


def test_an_empty_column_and_a_missing_value_are_named():
    with pytest.raises(DataError, match="^a: row 2: id is missing; expected an id$"):
        read_column(read_ids, pl.Series("id", [1, None]), "expected an id", "a")
    with pytest.raises(DataError, match="^a: label has no rows"):
        read_column(read_labels, pl.Series("label", [], dtype=pl.Null), "expected a number", "a")


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([1, 2], [1, 2]),
        ([1.0, 2.0], [1, 2]),
        ([1.5, 2.0], None),
        (["a", "2"], ["a", "2"]),
        (["a", ""], None),
        ([2**63, 1], [str(2**63), "1"]),
        ([[1], [2]], None),
    ],
)
def test_ids_are_whole_numbers_or_texts(values, wanted):
    dtype = pl.UInt64 if values[0] == 2**63 else None
    found = read_ids(pl.Series(values, dtype=dtype))
    assert (found if found is None else found.to_list()) == wanted


@pytest.mark.parametrize("values", [[-1.0], [math.inf], [math.nan], [1e39], ["x"], [None, 1.0], [[1]]])
def test_labels_are_finite_and_not_negative(values):
    assert read_labels(pl.Series(values)) is None


def test_labels_and_features_of_texts_and_booleans_are_numbers():
    assert read_labels(pl.Series([" 1.5", "0"])).tolist() == [1.5, 0.0]
    assert read_labels(pl.Series([True, False])).dtype == np.float32
    assert read_features(pl.Series([True, None])).tolist()[0] == 1.0
    np.testing.assert_array_equal(read_features(pl.Series(["N/A", " 2 ", "NaN"])), [math.nan, 2.0, math.nan])
    assert read_features(pl.Series([math.inf])) is None
