"""Tables with named columns: every kind of table and id gives the same data set."""

import datetime
from pathlib import Path

import pandas
import polars as pl
import pyarrow
import pytest

from songrank.data import DataError, prepare
from songrank.data.preparation_options import ColumnOptions
from songrank.data.readers import interactions
from songrank.data.readers.interactions import ITEM_NAMES, USER_NAMES, InteractionColumns
from tests.data.folders import write_zip
from tests.data.readers.small_logs import ROWS, _parquet, arrays, prepared


def as_csv(separator=",", encoding="utf-8", end="\n", mark=b""):
    return mark + pl.DataFrame(ROWS).write_csv(separator=separator, line_terminator=end).encode(encoding)


TABLES = {
    "a dict": lambda: ROWS,
    "polars": lambda: pl.DataFrame(ROWS),
    "lazy polars": lambda: pl.LazyFrame(ROWS),
    "pandas": lambda: pandas.DataFrame(ROWS),
    "pandas with object columns": lambda: pandas.DataFrame(ROWS).astype({"user": object, "item": object}),
    "pandas with categories": lambda: pandas.DataFrame(ROWS).astype({"user": "category"}),
    "Arrow": lambda: pyarrow.table(ROWS),
}

FILES = {
    "rows.csv": as_csv,
    "rows.tsv": lambda: as_csv("\t"),
    "semicolons.csv": lambda: as_csv(";"),
    "windows.csv": lambda: as_csv(end="\r\n", mark=b"\xef\xbb\xbf"),
    "rows.parquet": lambda: _parquet(),
}


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_every_kind_of_table_gives_the_same_arrays(kind, expected, tmp_path):
    prepare("interactions", TABLES[kind](), tmp_path / "set")
    assert arrays(tmp_path / "set") == expected


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_kind_of_file_gives_the_same_arrays_packed_or_not(name, expected, tmp_path):
    (tmp_path / name).write_bytes(FILES[name]())
    write_zip(tmp_path / "rows.zip", {f"inside/{name}": FILES[name]()})
    for at, source in enumerate((tmp_path / name, tmp_path / "rows.zip")):
        prepare("interactions", source, tmp_path / f"set{at}")
        assert arrays(tmp_path / f"set{at}") == expected


def test_another_encoding_is_read_when_it_is_named(expected, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_bytes(as_csv(encoding="latin-1"))
    with pytest.raises(DataError, match=r"rows\.csv, line 2: byte 0xe4 is not UTF-8.*pass --encoding, e.g. latin-1"):
        prepare("interactions", file, tmp_path / "set")
    prepare("interactions", file, tmp_path / "set", encoding="latin-1")
    assert arrays(tmp_path / "set") == expected


@pytest.mark.parametrize(
    ("ids", "found"),
    [
        (["10", "9", "007"], ["007", "10", "9"]),
        (["10", "9", "-3"], [-3, 9, 10]),
        ([str(2**64), "1", "2"], ["1", str(2**64), "2"]),
        ([2**62, 1, -1], [-1, 1, 2**62]),
        (pl.Series([2**70, 1, 2], dtype=pl.Int128).to_list(), ["1", str(2**70), "2"]),
        ([3.0, 1.0, 2.0], [1, 2, 3]),
        (
            [datetime.date(2024, 1, 2), datetime.date(2024, 1, 1), datetime.date(2023, 1, 1)],
            ["2023-01-01", "2024-01-01", "2024-01-02"],
        ),
    ],
)
def test_ids_come_back_as_they_were(ids, found, tmp_path):
    table = {"user": [*ids, *ids, *ids], "item": [1, 1, 1, 2, 2, 2, 3, 3, 3]}
    dataset = prepare("interactions", table, tmp_path / "set")
    assert list(dataset.query_ids) == found
    assert dataset.query_ids.find(found).tolist() == [0, 1, 2]
    assert dataset.query_ids.find(["none such"]).tolist() == [-1]


def test_a_column_is_left_alone_when_told_to(tmp_path):
    table = {"user": [1, 1, 1, 2, 2, 2], "item": [1, 2, 3, 1, 2, 3], "rating": ["good"] * 6, "date": ["Jan 5"] * 6}
    with pytest.raises(DataError, match="rating is 'good'"):
        prepare("interactions", table, tmp_path / "set")
    dataset = prepare("interactions", table, tmp_path / "set", label_column=None, time_column="none")
    assert dataset.num_pairs == 6
    assert dataset["test"].time is None


def test_what_an_index_column_of_pandas_leaves_is_passed_over(tmp_path):
    pandas.DataFrame(ROWS).to_csv(tmp_path / "log.csv")
    assert prepared(tmp_path, tmp_path / "log.csv").num_pairs == 6


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({"user": [1, 2], "item": [1, 2]}, {"min_rating": 4, "split": "none"}, "min_rating needs ratings"),
        ({"user": [1, 2] * 10, "item": range(20), "time": [7] * 20}, {"split": "time"}, "no pair is left for training"),
        (
            {"user": [1, 2], "item": [1, 2], "rating": [1, 2]},
            {"min_rating": float("-inf")},
            "option min_rating is -inf",
        ),
        (
            {"user": [1, 2], "item": [1, 2], "time": pl.Series([2**62, 1], dtype=pl.Datetime("ms"))},
            {},
            "row 1: time is",
        ),
        (
            {"user": [1, 2] * 9, "item": range(18)},
            {"drop_last": 1, "split": "random"},
            "expected drop_last 0 with split",
        ),
        ({"user": [1, 2] * 9, "item": range(18)}, {"drop_last": 1, "holdout": 2}, "or at least holdout, 2"),
        ({"user": [1, 2] * 9, "item": range(18)}, {"drop_last": 8}, "has 3 interactions left.* or lower drop_last"),
        ({"user": [1, 2], "item": [1, 2], "time": [2**64, 1]}, {}, "row 1: time is 18446744073709551616"),
        ({"user": [1, 2], "item": [1, 2], "time": [1e17, 1.5]}, {}, "row 1: time is 1e"),
    ],
)
def test_what_cannot_be_done_is_said(table, options, message, tmp_path):
    with pytest.raises(DataError, match=message):
        prepared(tmp_path, table, **options)


def test_a_folder_of_parts_is_one_table(expected, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    frame = pl.DataFrame(ROWS)
    frame[:2].write_parquet(folder / "part-0.parquet")
    frame[2:].write_parquet(folder / "part-1.parquet")
    prepare("interactions", folder, tmp_path / "set")
    assert arrays(tmp_path / "set") == expected


@pytest.mark.parametrize(
    ("columns", "time"),
    [
        (["user", "item", "ordered_at"], "ordered_at"),
        (["user", "item", "Purchase_Date"], "Purchase_Date"),
        (["user", "item", "created_at", "updated_at"], "created_at"),
        (["user", "item", "shipped_at", "paid_at"], None),
        (["user", "item", "cat"], None),
    ],
)
def test_a_column_that_ends_like_a_time_is_the_time_if_it_is_the_only_one(columns, time):
    assert InteractionColumns.find(columns, ColumnOptions(), "a.csv").time == time


def test_the_documentation_lists_the_usual_names():
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "prepare-data.md").read_text()
    for name in (*USER_NAMES, *ITEM_NAMES, *interactions._LABEL, *interactions._TIME, *interactions._TIME_ENDINGS):
        assert f"`{name}`" in page, name
