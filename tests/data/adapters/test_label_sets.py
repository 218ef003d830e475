"""Label sets from lists, columns and matrices."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.adapters.label_sets import read_known_labels, read_label_sets

DENSE = np.array([[0, 1, 1], [0, 0, 0], [1, 0, 0]])
SAME = {
    "dense": DENSE,
    "booleans": DENSE.astype(bool),
    "csr": sparse.csr_matrix(DENSE),
    "coo": sparse.coo_matrix(DENSE),
    "pandas": pd.DataFrame(DENSE, columns=[0, 1, 2]),
}


def sets_of(table, ids):
    rows, items = table.row_of_entries().tolist(), table["item"].tolist()
    return [[ids[item] for row, item in zip(rows, items, strict=True) if row == at] for at in range(len(table))]


@pytest.mark.parametrize("kind", SAME)
def test_every_matrix_gives_the_same_sets(kind):
    table, ids = read_label_sets(SAME[kind], 3)
    assert sets_of(table, ids) == [[1, 2], [], [0]]


def test_columns_of_a_table_are_labels_by_name():
    table, ids = read_label_sets(pl.DataFrame({"tax": [0.0, 2.5], "law": [1, 0]}), 2)
    assert list(ids) == ["law", "tax"]
    assert sets_of(table, ids) == [["law"], ["tax"]]
    assert table["label"].tolist() == [1.0, 2.5]


def test_a_column_of_classes_is_one_label_per_row():
    table, ids = read_label_sets(np.array([30, 10, 30]), 3)
    assert sets_of(table, ids) == [[30], [10], [30]]


def test_unknown_labels_are_left_out_of_an_evaluation():
    known = Ids.of(["law", "tax"])
    table = read_known_labels([["law", "new"], ["tax"]], 2, known)
    assert sets_of(table, known) == [["law"], ["tax"]]
    with pytest.raises(DataError, match="^no label of Y was fitted"):
        read_known_labels([["new"], ["newer"]], 2, known)
    with pytest.raises(DataError, match="^Y has 3 columns; expected 2"):
        read_known_labels(DENSE, 3, known)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "^fit requires y to be passed"),
        ([["a"], ["b"]], "^Y has 2 rows, but X has 3"),
        ([["a"], [1], []], "^Y mixes whole numbers and strings"),
        ([["a"], [""], []], r"^Y contains '' in row 1 \(from 0\)"),
        ([["a"], 0.5, []], r"^Y is 0.5 in row 1 \(from 0\)"),
        ("abc", "^Y is 'abc'"),
        (DENSE * -1, r"^Y is -1.0 in row 0 \(from 0\)"),
        (DENSE[:, :1] * 1.0, "^Y is a matrix with one label"),
        ([[2**70], [1], []], "^Y contains a whole number of more than 64 bits"),
    ],
)
def test_wrong_labels_are_rejected(labels, message):
    with pytest.raises(DataError, match=message):
        read_label_sets(labels, 3)
