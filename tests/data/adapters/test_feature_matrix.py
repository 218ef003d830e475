"""Feature matrices of every kind."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from songrank.core.errors import DataError
from songrank.data.adapters import feature_matrix
from songrank.data.adapters.feature_matrix import FittedColumns, read_matrix

DENSE = np.array([[1.0, 0.0, 2.5], [0.0, -3.0, 4.0], [5.0, 6.0, 0.0]], np.float32)
NAMES = ["a", "b", "c"]
SAME = {
    "numpy": DENSE,
    "lists": DENSE.tolist(),
    "sparse": sparse.coo_matrix(DENSE),
    "pandas": pd.DataFrame(DENSE, columns=NAMES),
    "polars": pl.DataFrame(DENSE, schema=NAMES),
    "dict": {name: DENSE[:, at] for at, name in enumerate(NAMES)},
}


@pytest.mark.parametrize("kind", SAME)
def test_every_kind_gives_the_same_blocks(kind, monkeypatch):
    monkeypatch.setattr(feature_matrix, "_BLOCK_VALUES", 6)
    found = read_matrix(SAME[kind])
    assert (found.rows, found.count, found.is_sparse) == (3, 3, kind == "sparse")
    blocks = list(found.blocks())
    assert [(first, last) for first, last, _ in blocks] == [(0, 2), (2, 3)]
    np.testing.assert_array_equal(np.concatenate([block for *_, block in blocks]), DENSE)
    np.testing.assert_array_equal(found.take(np.array([2, 0])).dense(0, 2), DENSE[[2, 0]])
    np.testing.assert_array_equal(found.columns([2, 0]).dense(0, 3), DENSE[:, [2, 0]])


def test_named_columns_are_put_into_the_fitted_order():
    fitted = FittedColumns.of(read_matrix(SAME["pandas"]))
    np.testing.assert_array_equal(fitted.find(read_matrix(SAME["pandas"][["c", "a", "b"]])).dense(0, 3), DENSE)
    with pytest.raises(DataError, match="^X has no column 'd'"):
        FittedColumns(("a", "d"), (), True).find(read_matrix(SAME["pandas"]))
    with pytest.raises(DataError, match="^X has 3 features, but Model is expecting 2 features"):
        FittedColumns(("Column_0", "Column_1"), (), False).find(read_matrix(DENSE), "Model")


def test_ignored_columns_are_left_out_with_and_without_names():
    fitted = FittedColumns.of(read_matrix(SAME["polars"]), "b")
    assert fitted.used == ("a", "c")
    for kind in ("polars", "numpy"):
        np.testing.assert_array_equal(fitted.find(read_matrix(SAME[kind])).dense(0, 3), DENSE[:, [0, 2]])
    for ignore, message in (("d", "unknown column 'd'"), (NAMES, "has all columns"), (3, "^ignore is 3")):
        with pytest.raises(DataError, match=message):
            FittedColumns.of(read_matrix(SAME["polars"]), ignore)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0], r"X has shape \[2\]"),
        ([[1.0], [1.0, 2.0]], "rows of different lengths"),
        (np.zeros((0, 2)), "X has 0 sample"),
        (np.zeros((2, 0)), "X has 0 feature"),
        (np.zeros((1, 1), complex), "X is complex"),
    ],
)
def test_wrong_shapes_are_rejected(values, message):
    with pytest.raises(DataError, match=message):
        read_matrix(values)


def test_an_infinite_value_is_named_by_row_and_column():
    values = DENSE.copy()
    values[1, 2] = np.inf
    with pytest.raises(DataError, match=r"^X is inf in row 1, column 2 \(from 0\)"):
        read_matrix(values).dense(0, 3)
