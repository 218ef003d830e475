"""Detection of the kind of a column."""

import datetime

import polars as pl
import pytest

from songrank.data.features.detection import column_kind


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "numeric"),
        (["1", "", "2.5"], "numeric"),
        ([True, False], "categorical"),
        (["m", "f"], "categorical"),
        (["Sci-Fi|Drama", "Drama"], "multi-valued"),
        ([["a"], ["b"]], "multi-valued"),
        ([[0.5], [1.0]], "embedding"),
        (["2020-01-01", "2021-02-03"], "date"),
        ([datetime.date(2020, 1, 1)], "date"),
        (["The Matrix", "A Bug's Life", "Heat of the Night"], "text"),
        (["New York", "New York", "New York", "San Jose"], "categorical"),
        ([None, None], None),
        (["", " "], None),
        ([b"x", b"y"], None),
        ([{"a": 1}, {"a": 2}], None),
        ([[{"a": 1}], [{"a": 2}]], None),
        ([[[1.0]], [[2.0]]], None),
        ([datetime.timedelta(1), datetime.timedelta(2)], "categorical"),
    ],
)
def test_kind_of_a_column(values, kind):
    assert column_kind(pl.Series(values)) == kind
