"""Documents, labels, lists, weights and evaluation sets of a document ranker."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.core.errors import DataError
from songrank.data.adapters.documents import (
    DocumentTable,
    read_documents,
    read_eval_names,
    read_eval_sets,
    read_lists,
    read_weights,
)
from songrank.data.adapters.feature_matrix import read_matrix

X = np.arange(6.0).reshape(3, 2)


def read(y=(1, 0, 2), group=(2, 1), qid=None, weight=None, **more):
    return read_documents(read_matrix(X), y, group, qid, weight, gain="linear", **more)


def test_a_weight_multiplies_the_gain_of_a_label():
    assert read(weight=[2.0, 1.0, 0.5]).label.tolist() == [2.0, 0.0, 1.0]


def test_the_table_holds_all_splits_with_queries_numbered_through():
    table = DocumentTable(("label", "bm25"), np.array([0.5, 2.0]), ignored=("query",))
    frame = pl.concat(table.parts(read(), [read(group=(3,))]))
    columns = table.columns()
    assert columns == {
        "query_column": "_query",
        "label_column": "_label",
        "split_column": "split",
        "weight_column": "weight",
    }
    assert frame["_query"].to_list() == [0, 0, 1, 2, 2, 2]
    assert frame["_label"].to_list() == [1, 0, 2] * 2
    assert frame["split"].to_list() == ["train"] * 3 + ["validation"] * 3
    assert frame["weight"].to_list() == [0.5, 0.5, 2.0, 1.0, 1.0, 1.0]
    assert frame.select("label", "bm25").to_numpy().tolist() == X.tolist() * 2
    assert frame["query"].null_count() == 6


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group": None}, "^neither group nor qid is given"),
        ({"y": None}, "^fit requires y to be passed"),
        ({"y": [1, 0]}, r"^y has shape \[2\], but X has 3 rows"),
        ({"y": [1, -1, 0]}, r"^y is -1.0 in row 1 \(from 0\)"),
        ({"y": "abc"}, "^y is 'abc'; expected numbers"),
    ],
)
def test_wrong_documents_are_rejected(given, message):
    with pytest.raises(DataError, match=message):
        read(**given)


def test_evaluation_sets_are_one_pair_or_a_list_of_pairs():
    assert read_eval_sets(("X", "y"), None, None, None) == [("X", "y", None, None, None)]
    assert read_eval_sets([("X", "y"), ["Z", "z"]], [1, 2], None, None)[1] == ("Z", "z", 2, None, None)
    for wrong in (([("X", "y")], [1, 2]), ([("X",)], None), ("X", None)):
        with pytest.raises(DataError, match="^eval_"):
            read_eval_sets(*wrong, None, None)


def test_names_of_evaluation_sets_differ():
    assert read_eval_names(None, 2) == ["valid_0", "valid_1"]
    assert read_eval_names(["a", "b"], 2) == ["a", "b"]
    with pytest.raises(DataError, match="expected 2 distinct names$"):
        read_eval_names(["a", "a"], 2)


@pytest.mark.parametrize("weight", [[1, 0, 2.5], np.array([1, 0, 2.5], np.float32), ("1", "0", "2.5")])
def test_weights_are_float64(weight):
    found = read_weights("sample_weight", weight, 3, "row")
    assert found.dtype == np.float64
    assert found.tolist() == [1.0, 0.0, 2.5]


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, 2], r"^sample_weight has shape \[2\]; expected one weight per row, \[3\]$"),
        ([1, np.inf, 1], r"^sample_weight is inf at position 1 \(from 0\)"),
        (np.ma.array([1.0, 2.0, 3.0], mask=[0, 0, 1]), r"^sample_weight is nan at position 2 \(from 0\)"),
        ([0, 0, 0], "^sample_weight is all zero"),
        (["a", "b", "c"], "^sample_weight is a list; expected numbers$"),
    ],
)
def test_wrong_weights_are_rejected(weight, message):
    with pytest.raises(DataError, match=message):
        read_weights("sample_weight", weight, 3, "row")


@given(st.lists(st.integers(1, 5), min_size=1))
def test_lengths_and_ids_of_the_same_lists_agree(lengths):
    rows = sum(lengths)
    by_length = read_lists(rows, group=lengths)
    by_id = read_lists(rows, qid=np.repeat([f"q{at}" for at in range(len(lengths))], lengths))
    assert by_length.number.tolist() == by_id.number.tolist()
    assert by_length.lengths.tolist() == lengths
    assert by_length.order.tolist() == list(range(rows))


def test_rows_of_a_query_are_ordered_list_by_list():
    lists = read_lists(5, qid=[7, 3, 7, 3, 7])
    assert (lists.count, lists.lengths.tolist(), lists.order.tolist()) == (2, [3, 2], [0, 2, 4, 1, 3])


def test_without_either_all_rows_are_one_list():
    assert read_lists(3).lengths.tolist() == [3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"group": [3], "qid": [1, 1, 1]}, "both given"),
        ({"group": [2, 2]}, "group sums to 4, but X has 3 rows"),
        ({"group": [3, 0]}, "group does not contain list lengths"),
        ({"group": [1.5, 1.5]}, "group does not contain list lengths"),
        ({"group": "abc"}, "group does not contain list lengths"),
        ({"qid": [1, 2]}, r"qid has shape \[2\], but X has 3 rows"),
        ({"qid": [1.0, float("nan"), 2.0]}, r"qid is missing in row 1 \(from 0\)"),
    ],
)
def test_wrong_groups_are_rejected(given, message):
    with pytest.raises(DataError, match=message):
        read_lists(3, **given)
