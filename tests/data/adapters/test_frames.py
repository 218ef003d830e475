"""Tables of every library, read and returned."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from songrank.core.errors import DataError
from songrank.data.adapters.frames import is_table, kind_of, read_table, write_table

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
