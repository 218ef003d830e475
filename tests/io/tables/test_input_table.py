"""Tables from memory and files as one input."""

import numpy as np
import polars as pl
import pytest

from songrank.data import DataError, prepare
from tests.data.readers.small_logs import ROWS, prepared


def test_the_wrong_row_of_a_table_is_named():
    table = {"user": np.arange(10_000), "item": np.ones(10_000), "rating": np.where(np.arange(10_000) == 6_789, -1, 1)}
    with pytest.raises(DataError, match=r"the table: row 6,790: rating is -1; expected a finite number of at least 0"):
        prepare("interactions", table, "unused")


@pytest.mark.parametrize("parts", [[[10, 20], ["10", "x"]], [["10", "x"], [20, 10]], [[10], ["20"], ["x"]]])
def test_parts_with_ids_of_different_types_are_texts(parts, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for at, users in enumerate(parts):
        pl.DataFrame({"user": users, "item": [at] * len(users)}).write_parquet(folder / f"{at}.parquet")
    dataset = prepared(tmp_path, folder, split="none")
    assert list(dataset.query_ids) == ["10", "20", "x"]


def test_parts_without_rows_are_passed_over(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    pl.DataFrame(ROWS).write_parquet(folder / "0.parquet")
    pl.DataFrame(ROWS)[:0].write_parquet(folder / "1.parquet")
    assert prepared(tmp_path, folder).num_pairs == 6


@pytest.mark.parametrize("name", ["data[1].parquet", "da*.parquet"])
def test_a_file_name_is_no_pattern(name, tmp_path):
    pl.DataFrame(ROWS).write_parquet(tmp_path / name)
    pl.DataFrame({key: value * 2 for key, value in ROWS.items()}).write_parquet(tmp_path / "data1.parquet")
    assert prepared(tmp_path, tmp_path / name, duplicates="keep").num_pairs == 6
