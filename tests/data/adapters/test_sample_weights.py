"""Weights of documents and of lists."""

import numpy as np
import pytest

from songrank.core.errors import DataError
from songrank.data.adapters.sample_weights import read_weights


@pytest.mark.parametrize("weight", [[1, 0, 2.5], np.array([1, 0, 2.5], np.float32), ("1", "0", "2.5")])
def test_weights_are_float64(weight):
    found = read_weights("sample_weight", weight, 3, "row")
    assert found.dtype == np.float64
    assert found.tolist() == [1.0, 0.0, 2.5]


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, 2], r"^sample_weight has shape \[2\]; expected one weight a row, \[3\]$"),
        ([1, np.inf, 1], r"^sample_weight is inf in place 1 \(from 0\)"),
        (np.ma.array([1.0, 2.0, 3.0], mask=[0, 0, 1]), r"^sample_weight is nan in place 2 \(from 0\)"),
        ([0, 0, 0], "^sample_weight is zero everywhere"),
        (["a", "b", "c"], "^sample_weight is a list; expected numbers$"),
    ],
)
def test_wrong_weights_are_rejected(weight, message):
    with pytest.raises(DataError, match=message):
        read_weights("sample_weight", weight, 3, "row")
