"""Columns of ids and labels from any container."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from songrank.core.columns import check_count, check_same_length, read_ids, read_labels


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, pd.Series, pl.Series], ids=lambda kind: kind.__name__)
def test_every_container_gives_the_same_columns(kind):
    ids, labels = read_ids("query", kind([3, 0, 7])), read_labels("label", kind([1, 0, 2]))
    assert ids.dtype == torch.int64
    assert ids.tolist() == [3, 0, 7]
    assert labels.dtype == torch.float32
    assert labels.tolist() == [1.0, 0.0, 2.0]


def test_a_column_is_a_copy():
    mine = torch.tensor([1, 2])
    read = read_ids("query", mine)
    mine[0] = 9
    assert read.tolist() == [1, 2]


def test_an_empty_list_is_an_empty_column():
    assert read_ids("query", []).tolist() == []


def test_the_first_bad_value_is_named():
    with pytest.raises(ValueError, match=r"^query\[2\] is -5; expected a number of at least 0$"):
        read_ids("query", [1, 0, -5, -6])
    with pytest.raises(ValueError, match=r"^label\[1\] is nan; expected a finite number of at least 0$"):
        read_labels("label", [1.0, float("nan"), -1.0])
    with pytest.raises(TypeError, match="^query is 'of type float64'; expected whole numbers$"):
        read_ids("query", [1.0, 2.0])
    with pytest.raises(ValueError, match="expected one dimension$"):
        read_ids("query", [[1, 2]])


def test_a_count_is_the_largest_id_plus_one_unless_given():
    ids = [torch.tensor([1, 4]), torch.tensor([], dtype=torch.int64)]
    assert check_count("num_items", None, "item", ids) == 5
    assert check_count("num_items", 9, "item", ids) == 9
    with pytest.raises(ValueError, match="^item contains the id 4; expected ids below num_items=3$"):
        check_count("num_items", 3, "item", ids)


def test_columns_of_different_lengths_are_rejected():
    with pytest.raises(ValueError, match="^label is 'of length 2'; expected the length of query, 3$"):
        check_same_length("label", torch.zeros(2), "query", torch.zeros(3))
