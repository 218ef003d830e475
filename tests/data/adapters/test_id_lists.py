"""Ids given directly."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from songrank.core.errors import UserError
from songrank.data.adapters.id_lists import id_at, ids_in_order


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
