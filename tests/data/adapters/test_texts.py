"""Texts from lists, arrays and columns."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from songrank.core.errors import DataError
from songrank.data.adapters.texts import as_texts


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
    with pytest.raises(DataError, match=r"^X is one text; expected several: \[X\]$"):
        as_texts("one")
    with pytest.raises(DataError, match=r"^X is None in row 1 \(from 0\); expected a text in every row$"):
        as_texts(["one", None])
