"""Tables with named columns: every kind of table and id gives the same data set."""

import datetime
import functools
import io

import numpy as np
import pandas
import polars as pl
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from songrank.data import DataError, prepare
from songrank.io.source import Job, Source
from songrank.io.tables.delimited import DelimitedFile
from songrank.io.tables.times import read_times
from tests.data.folders import contents, write_zip

ROWS = {
    "user": ["u2", "u1", "u1", "u2", "u1", "u2"],
    "item": ["ä", "b", "c", "b", "a,b", "c"],
    "rating": [1.0, 2.0, 3.5, 4.0, 5.0, 0.5],
    "time": [30, 1, 2, 20, 3, 10],
}


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


def _parquet():
    stream = io.BytesIO()
    pl.DataFrame(ROWS).write_parquet(stream)
    return stream.getvalue()


def arrays(folder):
    return {name: data for name, data in contents(folder).items() if name.endswith(".safetensors")}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("expected") / "set"
    dataset = prepare("interactions", ROWS, folder)
    assert list(dataset.query_ids) == ["u1", "u2"]
    assert list(dataset.item_ids) == ["a,b", "b", "c", "ä"]
    assert dataset.item_ids[dataset["train"].item] == ["b", "c"]
    assert dataset.item_ids[dataset["validation"].item] == ["c", "b"]
    assert dataset.item_ids[dataset["test"].item] == ["a,b", "ä"]
    assert dataset["test"].label.tolist() == [5.0, 1.0]
    return arrays(folder)


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
    with pytest.raises(DataError, match=r"rows\.csv, line 2: byte 0xe4 is not UTF-8.*--encoding latin-1"):
        prepare("interactions", file, tmp_path / "set")
    prepare("interactions", file, tmp_path / "set", encoding="latin-1")
    assert arrays(tmp_path / "set") == expected


def test_a_folder_of_parts_is_one_table(expected, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    frame = pl.DataFrame(ROWS)
    frame[:2].write_parquet(folder / "part-0.parquet")
    frame[2:].write_parquet(folder / "part-1.parquet")
    prepare("interactions", folder, tmp_path / "set")
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


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"duplicates": "last"}, [(1, 1), (1, 2), (2, 9), (3, 4), (8, 3), (9, 3)]),
        ({"duplicates": "first"}, [(1, 1), (1, 5), (2, 9), (3, 4), (8, 3), (9, 3)]),
        ({"duplicates": "max"}, [(1, 1), (1, 5), (2, 9), (3, 4), (8, 3), (9, 3)]),
        ({"duplicates": "keep"}, [(1, 1), (1, 2), (1, 5), (2, 9), (3, 4), (8, 3), (9, 3)]),
        ({"min_rating": 3}, [(1, 5), (2, 9), (3, 4), (8, 3), (9, 3)]),
        ({"labels": "binary"}, [(1, 1), (1, 1), (2, 1), (3, 1), (8, 1), (9, 1)]),
        ({"min_interactions": 2}, [(1, 2), (2, 9), (3, 4), (8, 3), (9, 3)]),
        ({"min_per_item": 2}, [(1, 1), (1, 2)]),
    ],
)
def test_what_is_kept_is_what_the_option_says(options, left, tmp_path):
    table = {
        "user": ["a", "a", "a", "a", "b", "c", "d", "d"],
        "item": [1, 2, 1, 3, 1, 7, 8, 9],
        "rating": [5, 9, 2, 4, 1, 0, 3, 3],
        "time": [1, 2, 3, 4, 5, 6, 7, 8],
    }
    dataset = prepare("interactions", table, tmp_path / "set", split="none", **options)
    train = dataset["train"]
    assert sorted(zip(dataset.item_ids[train.item], train.label.tolist(), strict=True)) == left
    assert list(dataset) == ["train"]


@pytest.mark.parametrize("back", [1, 2])
def test_a_rehearsal_is_the_split_as_it_would_have_been_before(back, tmp_path):
    users = [number // 9 for number in range(9 * 6)]
    items = [(number * 7) % 23 for number in range(9 * 6)]
    table = {"user": users, "item": items, "time": list(range(9 * 6))}
    more = prepare("interactions", table, tmp_path / "more")
    less = prepare("interactions", table, tmp_path / "less", drop_last=back)

    def rows(dataset):
        """Items of each user, in order, split by split."""
        found = {}
        for split in ("train", "validation", "test"):
            ends = dataset[split].offsets.tolist()
            ids = dataset.item_ids[dataset[split].item]
            for user, start, end in zip(dataset.query_ids, ends, ends[1:], strict=False):
                found.setdefault(user, []).append(list(ids[start:end]))
        return found

    for user, (train, *held_out) in rows(more).items():
        whole = [*train, *held_out[0], *held_out[1]][: -back or None]
        assert rows(less)[user] == [whole[:-2], whole[-2:-1], whole[-1:]]
    assert less.info["made"]["left_out"] == {"last pairs": back * 6}


def test_nothing_is_left_when_more_last_ones_go_than_there_are(tmp_path):
    with pytest.raises(DataError, match="no interaction is left"):
        prepare("interactions", {"user": [1, 1], "item": [1, 2]}, tmp_path / "set", drop_last=2)


def test_too_few_interactions_are_taken_out_until_all_have_enough(tmp_path):
    users, items = list("aaabbbccd"), [1, 2, 3, 1, 2, 3, 1, 4, 4]  # d goes, so 4 goes, so c goes
    dataset = prepare(
        "interactions", {"user": users, "item": items}, tmp_path / "set", min_interactions=2, min_per_item=2
    )
    assert list(dataset.query_ids) == ["a", "b"]
    assert list(dataset.item_ids) == [1, 2, 3]


def test_a_column_is_left_alone_when_told_to(tmp_path):
    table = {"user": [1, 1, 1, 2, 2, 2], "item": [1, 2, 3, 1, 2, 3], "rating": ["good"] * 6, "date": ["Jan 5"] * 6}
    with pytest.raises(DataError, match="rating is 'good'"):
        prepare("interactions", table, tmp_path / "set")
    dataset = prepare("interactions", table, tmp_path / "set", label_column=None, time_column="none")
    assert dataset.num_pairs == 6
    assert dataset["test"].time is None


def test_rows_with_label_0_are_counted_and_are_no_pairs(tmp_path):
    table = {"user": [1, 1, 2, 2], "item": [1, 2, 1, 2], "label": [1, 0, 0, 1]}
    dataset = prepare("interactions", table, tmp_path / "set", split="none")
    assert dataset.num_pairs == 2
    assert dataset.info["made"]["left_out"] == {"rows with label 0": 2}


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


CELLS = st.text(st.sampled_from('ab1,;"\n\r é'), max_size=4)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8), st.sampled_from([",", ";", "\t"]))
def test_what_pythons_csv_writes_is_read_back(tmp_path_factory, rows, separator):
    import csv

    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(["a", "b", "c"])
    writer.writerows(rows)
    file = tmp_path_factory.mktemp("csv") / "rows.csv"
    file.write_bytes(stream.getvalue().encode())
    frames = [frame for frame, _ in DelimitedFile(Source(file), separator, Job()).frames(["c", "a"])]
    found = [tuple(cell or "" for cell in row) for frame in frames for row in frame.rows()]
    assert found == [(c.replace("\r\n", "\n"), a.replace("\r\n", "\n")) for a, _, c in rows]


@given(st.binary(max_size=80))
def test_any_bytes_are_a_table_or_a_data_error(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "rows.csv").write_bytes(b"user,item,rating,time\n" + data)
    (folder / "rows.parquet").write_bytes(_parquet()[: len(data)] + data)
    for name in ("rows.csv", "rows.parquet"):
        try:
            prepare("interactions", folder / name, folder / "set", overwrite=True)
        except DataError as error:
            assert "\n" not in str(error)


def test_quoted_line_ends_do_not_shift_line_numbers(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text('user,item,text\n1,2,"two\nlines"\n1,3,"x"\n1,,"y"\n')
    with pytest.raises(DataError, match="line 5: item is missing"):
        prepare("interactions", file, tmp_path / "set")


def test_the_wrong_row_of_a_table_is_named():
    table = {"user": np.arange(10_000), "item": np.ones(10_000), "rating": np.where(np.arange(10_000) == 6_789, -1, 1)}
    with pytest.raises(DataError, match=r"the table: row 6,790: rating is -1; expected a finite number of at least 0"):
        prepare("interactions", table, "unused")


def prepared(tmp_path, table, **options):
    return prepare("interactions", table, tmp_path / "set", overwrite=True, **options)


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


def test_a_quote_that_does_not_close_is_refused(tmp_path):
    file = tmp_path / "log.csv"
    file.write_text('user,item,title\n1,1,a\n2,2,"b\n3,3,c\n4,4,d\n')
    with pytest.raises(DataError, match=r"log\.csv, line 3: cannot be read .*check that quotes close"):
        prepared(tmp_path, file)


def test_a_quote_within_a_field_is_a_letter(tmp_path, monkeypatch):
    file = tmp_path / "log.csv"
    rows = "".join(
        f'{user},{item},5" nails\n' if item == 1 else f"{user},{item},x\n" for user in (1, 2) for item in (1, 2, 3)
    )
    file.write_text("user,item,title\n" + rows * 1)
    assert prepared(tmp_path, file).num_pairs == 6
    blocks = list(Source(file).blocks(Job(), block_bytes=30, quotes=True))
    assert len(blocks) > 1


@pytest.mark.parametrize("name", ["data[1].parquet", "da*.parquet"])
def test_a_file_name_is_no_pattern(name, tmp_path):
    pl.DataFrame(ROWS).write_parquet(tmp_path / name)
    pl.DataFrame({key: value * 2 for key, value in ROWS.items()}).write_parquet(tmp_path / "data1.parquet")
    assert prepared(tmp_path, tmp_path / name, duplicates="keep").num_pairs == 6


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
        ({"user": [1, 2] * 9, "item": range(18)}, {"drop_last": 8}, "has 3 interactions left.* or drop less"),
        ({"user": [1, 2], "item": [1, 2], "time": [2**64, 1]}, {}, "row 1: time is 18446744073709551616"),
        ({"user": [1, 2], "item": [1, 2], "time": [1e17, 1.5]}, {}, "row 1: time is 1e"),
    ],
)
def test_what_cannot_be_done_is_said(table, options, message, tmp_path):
    with pytest.raises(DataError, match=message):
        prepared(tmp_path, table, **options)


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
