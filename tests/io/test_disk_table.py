"""Tables in files do what arrays do."""

import numpy as np
import pytest

from songrank.io.arrays import read_arrays, write_arrays
from songrank.io.disk_table import DiskTable


def test_rows_are_appended_replaced_and_removed(tmp_path):
    table = DiskTable(tmp_path / "table", {"a": np.int32, "b": np.float64})
    table.append({"a": np.arange(5), "b": np.arange(5) / 2})
    table.append({"a": np.arange(3), "b": np.ones(3)})
    table.write(4, {"a": np.array([90, 91]), "b": np.array([8.0, 9.0])})
    a = np.array([0, 1, 2, 3, 90, 91, 1, 2], np.int32)
    assert table.rows == 8
    np.testing.assert_array_equal(table.column("a")[:], a)
    np.testing.assert_array_equal(table.column("a")[1:20:3], a[1:20:3])
    assert table.read(3, 6, ["b"])["b"].tolist() == [1.5, 8.0, 9.0]
    assert [table.column("a")[at] for at in (4, -1)] == [90, 2]
    table.truncate(6)
    assert len(table.column("b")) == 6
    write_arrays(tmp_path / "x.safetensors", {"b": table.column("b"), "a": table.column("a")})
    assert read_arrays(tmp_path / "x.safetensors")["a"].tolist() == a[:6].tolist()


def test_columns_of_unequal_length_are_rejected(tmp_path):
    table = DiskTable(tmp_path / "table", {"a": np.int32, "b": np.float64})
    with pytest.raises(ValueError, match="equal lengths"):
        table.append({"a": np.arange(2), "b": np.arange(3)})
