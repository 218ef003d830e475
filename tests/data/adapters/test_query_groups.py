"""Lists of documents from group lengths or query ids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.core.errors import DataError
from songrank.data.adapters.query_groups import read_lists


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
        ({"group": [2, 2]}, "group sums to 4, and X has 3 rows"),
        ({"group": [3, 0]}, "group does not hold lengths"),
        ({"group": [1.5, 1.5]}, "group does not hold lengths"),
        ({"group": "abc"}, "group does not hold lengths"),
        ({"qid": [1, 2]}, r"qid has shape \[2\], and X has 3 rows"),
        ({"qid": [1.0, float("nan"), 2.0]}, r"qid is missing in row 1 \(from 0\)"),
    ],
)
def test_wrong_groups_are_rejected(given, message):
    with pytest.raises(DataError, match=message):
        read_lists(3, **given)
