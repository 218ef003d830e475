"""Tables as polars frames."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from songrank.core.errors import DataError
from songrank.io.tables import polars_frames as frames

COLUMNS = {"user": ["a", "b"], "item": [1, 2]}


@pytest.mark.parametrize(
    "table", [COLUMNS, pd.DataFrame(COLUMNS), pl.DataFrame(COLUMNS), pl.LazyFrame(COLUMNS), pa.table(COLUMNS)], ids=type
)
def test_every_kind_of_table_is_the_same_frame(table):
    assert frames.to_polars(table).to_dict(as_series=False) == COLUMNS


def test_missing_values_of_pandas_are_null_and_mixed_columns_are_texts():
    table = pd.DataFrame(
        {"a": pd.Series([1, None, "x"], dtype=object), "b": [pd.NaT, pd.Timestamp("2024-01-02"), pd.NaT]}
    )
    found = frames.to_polars(table)
    assert found["a"].to_list() == ["1", None, "x"]
    assert found["b"].null_count() == 2


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": [1], "b": [1, 2]}, "^the table: cannot be read"),
        (pd.DataFrame(np.zeros((1, 2)), columns=["a", "a"]), "^the table: has duplicate column names"),
        (7, "^source is a int; expected a path"),
    ],
)
def test_other_values_are_rejected(table, message):
    with pytest.raises(DataError, match=message):
        frames.to_polars(table)


def test_slices_of_a_table_join_to_the_table(monkeypatch):
    monkeypatch.setattr(frames, "_SLICE_BYTES", 8 * 2 * 3)
    table = pl.DataFrame({"a": range(8), "b": range(8), "c": range(8)})
    parts = list(frames.slices(table.lazy(), ["b", "a"], "file"))
    assert [part.height for part in parts] == [3, 3, 2]
    assert pl.concat(parts).equals(table.select("b", "a"))


def test_columns_are_found_by_usual_names_unless_named():
    columns = ["User ID", "x"]
    assert frames.find_column("auto", ("user", "user_id"), columns, "query", "a.csv") == "User ID"
    assert frames.find_column("x", ("user",), columns, "query", "a.csv") == "x"
    assert frames.find_column(None, ("x",), columns, "query", "a.csv") is None
    with pytest.raises(DataError, match="^a.csv: has no query column 'y'; columns are 'User ID', 'x'$"):
        frames.find_column("y", (), columns, "query", "a.csv")
    with pytest.raises(DataError, match="^a.csv: cannot find the item column among .*; pass --item-column$"):
        frames.need_column("auto", ("item",), columns, "item", "a.csv")


def test_a_long_first_line_without_a_header_is_cut():
    error = frames.no_column(["1" * 10**6], "user", "log.csv", "pass --user-column")
    assert len(str(error)) < 300
    assert "has no header: its columns would be called '111" in str(error)
