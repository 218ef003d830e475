"""Columns of tables in the type that is needed."""

import functools
import math

import numpy as np
import polars as pl
import pytest

from songrank.data import DataError
from songrank.io.source import Source
from songrank.io.tables.typed_columns import read_column, read_features, read_ids, read_labels, read_times
from tests.data.readers.small_logs import prepared


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


@pytest.mark.parametrize(
    ("texts", "kind", "numbers"),
    [
        (["5", "7"], "numbers", [5, 7]),
        (["5.5", "7"], "numbers", [5.5, 7]),
        ([str(2**60 + 1), "0"], "numbers", [2**60 + 1, 0]),
        (["2024-01-01", "1970-01-02"], "dates", [1704067200_000000, 86400_000000]),
        (["2024-01-01T00:00:01Z"], "dates", [1704067201_000000]),
        (["2024-01-01 00:00:00 UTC"], "dates", [1704067200_000000]),
        (["2024-01-01T02:00:00.5+02:00"], "dates", [1704067200_500000]),
    ],
)
def test_times_are_numbers_as_given_or_microseconds_of_utc(texts, kind, numbers):
    found, values = read_times(pl.Series(texts))
    assert (found.partition(" ")[0], values.tolist()) == (kind, numbers)


@pytest.mark.parametrize("texts", [["yesterday"], ["2024-13-01"], ["nan"], ["2024-01-01", "5"], ["", "5"]])
def test_what_is_no_time_is_refused(texts):
    assert read_times(pl.Series(texts)) is None


@pytest.mark.parametrize(
    "times",
    [
        pl.Series([900, 100, 500] * 2, dtype=pl.Datetime("ns")),
        np.array([3, 1, 2] * 2, np.uint64),
        np.array([3, 1, 2] * 2, "datetime64[s]"),
        [2**60 + 3, 2**60 + 1, 2**60 + 2] * 2,
        pl.Series([2**60 + 3, 2**60 + 1, 2**60 + 2] * 2, dtype=pl.Decimal(38, 0)),
        pl.Series(["0.3", "0.1", "0.2"] * 2).cast(pl.Decimal(10, 2)),
    ],
)
def test_order_is_kept_at_the_resolution_of_the_source(times, tmp_path):
    dataset = prepared(tmp_path, {"user": [1, 1, 1, 2, 2, 2], "item": [3, 1, 2] * 2, "time": times})
    assert dataset.item_ids[dataset["test"].item] == [3, 3]
    assert dataset.item_ids[dataset["train"].item] == [1, 1]


def test_times_of_two_forms_are_refused_wherever_blocks_end(tmp_path, monkeypatch):
    file = tmp_path / "log.csv"
    lines = [f"1,{item},2024-01-0{item}" for item in range(1, 5)] + [
        f"2,{i},2024-01-0{i} 10:00:00" for i in range(1, 5)
    ]
    file.write_text("user,item,time\n" + "\n".join(lines))
    for size in (40, 1 << 20):
        with monkeypatch.context() as patch:
            patch.setattr(Source, "blocks", functools.partialmethod(Source.blocks, block_bytes=size))
            with pytest.raises(DataError, match="time"):
                prepared(tmp_path, file)
