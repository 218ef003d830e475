"""Tables and columns of every library, read and returned."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from songrank.core.errors import DataError, UserError
from songrank.data.adapters.frames import as_texts, id_at, ids_in_order, is_table, kind_of, read_table, write_table

COLUMNS = {"user": [1, 2, 3], "item": ["a", "b", "c"]}
TABLES = {
    "pandas": pd.DataFrame(COLUMNS),
    "polars": pl.DataFrame(COLUMNS),
    "pyarrow": pa.table(COLUMNS),
    "dict": COLUMNS,
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_comes_back_in_its_own_kind(kind):
    table = TABLES[kind]
    assert kind_of(table) == kind
    frame = read_table(table, ("user", "item"))
    assert frame.to_dict(as_series=False) == COLUMNS
    again = write_table(frame, kind)
    assert kind_of(again) == kind
    assert read_table(again, ()).to_dict(as_series=False) == COLUMNS
    assert is_table(table) == (kind != "dict")


def test_columns_of_an_array_are_named_by_position():
    mixed = np.array([[1, "a"], [2, "b"]], dtype=object)
    frame = read_table(mixed, ("user", "item", "label"))
    assert frame.to_dict(as_series=False) == {"user": [1, 2], "item": ["a", "b"]}


def test_time_zones_survive_pandas():
    zone = datetime.UTC
    frame = pl.DataFrame({"time": [datetime.datetime(2024, 1, 2, tzinfo=zone)]})
    frame = frame.with_columns(pl.col("time").dt.convert_time_zone("Asia/Tokyo"))
    found = write_table(frame, "pandas")["time"][0]
    assert found == pd.Timestamp("2024-01-02 09:00", tz="Asia/Tokyo")
    assert str(found.tz) == "Asia/Tokyo"


@pytest.mark.parametrize("shape", [(3,), (3, 4), (3, 0), (1, 1, 1)])
def test_arrays_of_other_shapes_are_rejected(shape):
    with pytest.raises(DataError, match=r"expected \[rows, 1 to 3\]: user, item, label$"):
        read_table(np.zeros(shape), ("user", "item", "label"))


def test_a_path_is_rejected():
    with pytest.raises(DataError, match=r"^the table is 'a\.csv'; read the file first"):
        read_table("a.csv", ())


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
    with pytest.raises(DataError, match=r"^X is a string; expected a list of texts: \[X\]$"):
        as_texts("one")
    with pytest.raises(DataError, match=r"^X is None in row 1 \(from 0\); expected a string in each row$"):
        as_texts(["one", None])


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
