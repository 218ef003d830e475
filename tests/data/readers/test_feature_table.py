"""Documents in tables with named columns: every kind of table gives the same data set."""

import gzip

import numpy as np
import pandas
import polars as pl
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank.data import DataError
from tests.data.folders import write_zip
from tests.data.preparation.prepared import letor_line, lists_of, prepare_in, written

ROWS = {
    "bm25": [1.5, None, 3.0, -4.0, 5.0, 6.5],
    "qid": [7, 7, 9, 8, 9, 10],
    "clicks": [0, 1, 2, 3, 4, 5],
    "label": [0, 2, 1, 0, 3, 1],
    "title": ["a", "b", "c, d", "e", "f", "g"],
    "split": ["train", "train", "train", "train", "train", "test"],
}
OPTIONS = {"ignore": ["title"]}
TRAIN = {7: ([0, 2], [[1.5, 0], [0, 1]]), 8: ([0], [[-4, 3]]), 9: ([1, 3], [[3, 2], [5, 4]])}
TEST = {10: ([1], [[6.5, 5]])}

TABLES = {
    "a dict": lambda: ROWS,
    "polars": lambda: pl.DataFrame(ROWS),
    "lazy polars": lambda: pl.LazyFrame(ROWS),
    "pandas": lambda: pandas.DataFrame(ROWS),
    "pandas with its own missing values": lambda: pandas.DataFrame(ROWS).convert_dtypes(),
    "pandas with object columns": lambda: pandas.DataFrame(ROWS).astype(object),
    "Arrow": lambda: pyarrow.table(ROWS),
    "categories": lambda: pl.DataFrame(ROWS).with_columns(pl.col("split").cast(pl.Categorical)),
    "narrow types": lambda: pl.DataFrame(ROWS).cast({"bm25": pl.Float32, "clicks": pl.UInt8, "qid": pl.Int16}),
    "NaN for missing": lambda: pl.DataFrame(ROWS).with_columns(pl.col("bm25").fill_null(float("nan"))),
}


def frame(**changes):
    return pl.DataFrame(ROWS | changes, strict=False)


def check(dataset):
    assert lists_of(dataset, "train") == TRAIN
    assert lists_of(dataset, "test") == TEST
    assert list(dataset) == ["train", "test"]
    assert dataset.info["features"] == {"count": 2, "dtype": "float32", "names": ["bm25", "clicks"]}
    assert dataset.info["made"]["left_out"] == {"missing values replaced": 1}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_in_memory(tmp_path, kind):
    check(prepare_in(tmp_path, "feature-table", TABLES[kind](), **OPTIONS))


def test_pandas_without_pyarrow(tmp_path, monkeypatch):
    table = pandas.DataFrame(ROWS)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    check(prepare_in(tmp_path, "feature-table", table, **OPTIONS))


def write_table(path, table):
    if path.suffix == ".parquet":
        table.write_parquet(path, row_group_size=2)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(table.write_csv().encode()))
    else:
        table.write_csv(path, separator={".tsv": "\t"}.get(path.suffix, ","))
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet", "a.csv.gz"])
@pytest.mark.parametrize("packed", [False, True])
def test_files(tmp_path, name, packed):
    path = write_table(tmp_path / name, frame())
    if packed:
        path = write_zip(tmp_path / "a.zip", {"in/" + name.removesuffix(".gz"): _plain(path)})
    check(prepare_in(tmp_path, "feature-table", path, **OPTIONS))


def _plain(path):
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_blocks_of_any_size_give_the_same_bytes(tmp_path, name, monkeypatch):
    path = write_table(tmp_path / name, frame())
    whole = prepare_in(tmp_path, "feature-table", path, standardise=True, missing="mean", **OPTIONS)
    monkeypatch.setattr("songrank.io.tables.polars_frames._SLICE_BYTES", 100)
    blocks = prepare_in(tmp_path, "feature-table", path, block_bytes=10, standardise=True, missing="mean", **OPTIONS)
    assert written(whole, without=()) == written(blocks, without=())


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_named_after_splits(tmp_path, ending):
    table = frame().drop("split")
    write_table(tmp_path / f"my_train.{ending}", table[:5])
    write_table(tmp_path / f"my_test.{ending}", table[5:].select(reversed(table.columns)))
    check(prepare_in(tmp_path, "feature-table", tmp_path, **OPTIONS))


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (("data/train-00000-of-00002", "data/train-00001-of-00002"), "data/test-00000-of-00001"),
        (("train/part-0", "train/part-1"), "test/part-0"),
    ],
)
def test_parts_of_splits(tmp_path, train, test):
    table = frame().drop("split")
    for name, rows in zip((*train, test), (table[:2], table[2:5], table[5:]), strict=True):
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        write_table(tmp_path / "source" / f"{name}.parquet", rows)
    check(prepare_in(tmp_path, "feature-table", tmp_path / "source", **OPTIONS))


def test_a_table_that_is_for_no_split(tmp_path):
    for name in ("train", "test", "items"):
        write_table(tmp_path / f"{name}.csv", frame())
    with pytest.raises(DataError, match=r"test.csv names a split, but items.csv does not"):
        prepare_in(tmp_path, "feature-table", tmp_path, **OPTIONS)


def test_parts_of_one_table(tmp_path):
    (tmp_path / "parts").mkdir()
    table = frame(qid=[f"q{n}" for n in ROWS["qid"]])
    for part in range(3):
        write_table(tmp_path / "parts" / f"part-{part}.parquet", table[2 * part : 2 * part + 2])
    parts = prepare_in(tmp_path, "feature-table", tmp_path / "parts", **OPTIONS)
    assert written(parts) == written(prepare_in(tmp_path, "feature-table", table, **OPTIONS))


@pytest.mark.parametrize("word", ["validation", "valid", "vali", "val", "dev", " Validation"])
def test_words_for_splits(tmp_path, word):
    dataset = prepare_in(
        tmp_path, "feature-table", frame(split=["Train", "TRAINING", "train", word, "train", "test"]), **OPTIONS
    )
    assert list(dataset.split_query_ids("validation")) == [8]


def test_without_a_split_column_queries_are_divided_at_random(tmp_path):
    dataset = prepare_in(tmp_path, "feature-table", frame(label=1).drop("split"), **OPTIONS)
    assert {name: dataset[name].num_queries for name in dataset} == {"train": 2, "validation": 1, "test": 1}


def test_a_split_column_can_be_overruled(tmp_path):
    dataset = prepare_in(tmp_path, "feature-table", frame(label=1), split="random", validation=0, test=0, **OPTIONS)
    assert lists_of(dataset, "train")[10] == ([1], TEST[10][1])


def test_columns_are_found_by_other_usual_names_or_named(tmp_path):
    usual = frame().rename({"qid": "Query_ID", "label": "relevance"})
    check(prepare_in(tmp_path, "feature-table", usual, **OPTIONS))
    odd = frame().rename({"qid": "wer", "label": "wie gut", "split": "wohin"})
    named = {"query_column": "wer", "label_column": "wie gut", "split_column": "wohin"}
    check(prepare_in(tmp_path, "feature-table", odd, **named, **OPTIONS))


def test_a_separator_and_an_encoding(tmp_path):
    text = frame().write_csv(separator=";").replace("a", "ä")
    (tmp_path / "a.csv").write_bytes(text.replace("trä", "tra").replace("läbel", "label").encode("latin-1"))
    check(prepare_in(tmp_path, "feature-table", tmp_path / "a.csv", encoding="latin-1", **OPTIONS))


def test_words_for_missing_values_and_numbers_as_texts(tmp_path):
    texts = frame(bm25=["1.5", "NA", " 3", "-4e0", "+5", "6.5"])
    check(prepare_in(tmp_path, "feature-table", texts, **OPTIONS))


def test_ignored_columns_in_one_word_as_on_a_command_line(tmp_path):
    table = frame(doc=list("uvwxyz"))
    check(prepare_in(tmp_path, "feature-table", table, ignore="title, doc"))


def test_truths_are_features(tmp_path):
    dataset = prepare_in(tmp_path, "feature-table", frame(clicks=[True, False, True, False, True, False]), **OPTIONS)
    assert dataset["train"].features[:, 1].tolist() == [1, 0, 0, 1, 1]


def test_letor_text_and_a_table_of_the_same_rows_agree(tmp_path):
    generator = np.random.default_rng(0)
    values = generator.normal(size=(200, 3)).astype(np.float32)
    values[generator.random(values.shape) < 0.1] = np.nan
    query, label = generator.integers(0, 30, 200), generator.integers(0, 5, 200)
    lines = zip(label, query, values, strict=True)
    (tmp_path / "a.txt").write_text("".join(letor_line(y, q, row) for y, q, row in lines))
    table = {"qid": query, "label": label} | {f"f{at}": values[:, at] for at in range(3)}
    options = {"standardise": True, "missing": "mean", "seed": 3}
    text = prepare_in(tmp_path, "letor", tmp_path / "a.txt", **options)
    assert written(text)[0] == written(prepare_in(tmp_path, "feature-table", table, **options))[0]


MISTAKES = {
    "a text column": ({}, {"ignore": []}, "row 1: title is 'a'; expected a finite .*--ignore title"),
    "a text further down": (
        {"clicks": ["1", "2", "3", "many", "5", "6"]},
        {},
        "row 4: clicks is 'many'; expected a finite number",
    ),
    "a date": ({"clicks": pl.Series(["2020-01-01"] * 6).str.to_date()}, {}, "row 1: clicks is datetime.date"),
    "a list": ({"clicks": [[1, 2]] * 6}, {}, r"row 1: clicks is \[1, 2\]; expected a finite number"),
    "an infinite feature": ({"bm25": [1, 2, float("inf"), 3, 4, 5]}, {}, "row 3: bm25 is inf"),
    "a feature beyond float32": ({"bm25": [1, 2, -1e39, 3, 4, 5]}, {}, "row 3: bm25 is -1e[+]39"),
    "a text as label": ({"label": ["0", "2", "good", "0", "3", "1"]}, {}, "row 3: label is 'good'; expected a finite"),
    "a negative label": ({"label": [0, 1, 2, -1, 0, 0]}, {}, "row 4: label is -1; expected a finite number"),
    "a missing label": ({"label": [0, 1, 2, 1, None, 0]}, {}, "row 5: label is missing"),
    "a label that is NaN": ({"label": [0.0, 1, 2, 1, float("nan"), 0]}, {}, "row 5: label is nan"),
    "labels all 0": ({"label": 0}, {}, "no training label is above 0"),
    "a missing query": ({"qid": [7, 7, None, 8, 9, 10]}, {}, "row 3: qid is missing; expected an id"),
    "an empty query": ({"qid": ["7", "7", "", "8", "9", "10"]}, {}, "row 3: qid is ''; expected an id"),
    "a broken query": ({"qid": [7, 7, 8.5, 8, 9, 10]}, {}, "row 3: qid is 8.5; expected an id"),
    "test rows only": ({"split": "test"}, {}, "rows for test, but none for training"),
    "one query": ({"qid": 7, "split": "train"}, {}, "1 query cannot be split"),
    "an unknown split": ({"split": ["train"] * 5 + ["rest"]}, {}, "row 6: split is 'rest'; expected train, valid"),
    "a missing split": ({"split": ["train"] * 5 + [None]}, {}, "row 6: split is missing; expected train, valid"),
    "numbers for splits": ({"split": [0, 0, 0, 0, 0, 1]}, {}, "row 1: split is 0; expected train, validation or test"),
    "a query in two splits": (
        {"split": ["train", "test"] + ["train"] * 3 + ["test"]},
        {},
        "query 7 has rows in train and in test",
    ),
    "no such column": ({}, {"query_column": "q"}, "has no query column 'q'; columns are 'bm25', 'qid'"),
    "no such ignored column": ({}, {"ignore": ["titel"]}, "has no ignored column 'titel'; columns are 'bm25'"),
    "one column for two": ({}, {"query_column": "label", "label_column": "label"}, "has no label column 'label'"),
    "no features": ({}, {"ignore": ["bm25", "clicks", "title"]}, "has no features besides 'qid' and 'label'"),
    "no label column": ({}, {"ignore": ["title", "label"]}, "cannot find the label column among"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_tables(tmp_path, mistake):
    changes, options, message = MISTAKES[mistake]
    with pytest.raises(DataError, match=f"^(the table: )?.*{message}"):
        prepare_in(tmp_path, "feature-table", frame(**changes), **(OPTIONS | options))


def test_rows_are_counted_through_all_slices(tmp_path, monkeypatch):
    monkeypatch.setattr("songrank.io.tables.polars_frames._SLICE_BYTES", 1)
    with pytest.raises(DataError, match="the table: row 4: label is -1"):
        prepare_in(tmp_path, "feature-table", frame(label=[0, 1, 2, -1, 0, 0]), **OPTIONS)


TEXT = frame().write_csv()
BAD_FILES = {
    "line of a text file": ("a.csv", TEXT.replace("5.0,9", "5.0x,9"), r"a.csv, line 6: bm25 is '5.0x'"),
    "columns of one name": ("a.csv", TEXT.replace("clicks", "bm25"), "a.csv, line 1: the first line is"),
    "a line that is too short": ("a.csv", TEXT + "1,2\n", r"a.csv, line 8: has 2 columns"),
    "no rows": ("a.csv", TEXT.partition("\n")[0] + "\n", "a.csv: has no rows"),
    "nothing": ("a.csv", "", "a.csv: is empty"),
    "not Parquet": ("a.parquet", TEXT, "a.parquet: is not a valid Parquet file"),
    "an empty Parquet file": ("a.parquet", "", "a.parquet: is not a valid Parquet file"),
}


@pytest.mark.parametrize("mistake", BAD_FILES)
def test_mistakes_in_files(tmp_path, mistake):
    name, text, message = BAD_FILES[mistake]
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        prepare_in(tmp_path, "feature-table", tmp_path / name, **OPTIONS)


PIECES = st.sampled_from(
    ["a", "7", "1.5", "-1", "nan", "inf", "1e99", "", '"', "ä", "\n", "\r\n", ",", ",", ",", "train", "test", "\x00"]
)


@settings(deadline=None, max_examples=150)
@given(parts=st.lists(PIECES, max_size=25), whole=st.booleans(), block_bytes=st.sampled_from([3, 50, 1 << 20]))
def test_whatever_is_in_a_text_file_is_read_or_refused(parts, whole, block_bytes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("odd")
    (folder / "a.csv").write_bytes(((TEXT if whole else "") + "".join(parts)).encode())
    try:
        dataset = prepare_in(folder, "feature-table", folder / "a.csv", block_bytes=block_bytes, **OPTIONS)
    except DataError as error:
        assert "\n" not in str(error)  # most are refused, and each way of it is fine
    else:
        assert dataset["train"].features.isfinite().all()


def test_a_parquet_file_without_rows(tmp_path):
    frame()[:0].write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a.parquet: has no rows; expected at least one document"):
        prepare_in(tmp_path, "feature-table", tmp_path / "a.parquet", **OPTIONS)


def test_a_parquet_file_that_is_cut_off(tmp_path):
    path = write_table(tmp_path / "a.parquet", frame())
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"a.parquet: is not a valid Parquet file"):
        prepare_in(tmp_path, "feature-table", path, **OPTIONS)


def test_files_that_do_not_belong_together(tmp_path):
    write_table(tmp_path / "train.csv", frame())
    write_table(tmp_path / "test.csv", frame().rename({"clicks": "taps"}))
    with pytest.raises(DataError, match=r"test.csv: features differ from the previous file: 'clicks', 'taps'"):
        prepare_in(tmp_path, "feature-table", tmp_path, **OPTIONS)
    write_table(tmp_path / "train.tsv", frame())
    with pytest.raises(DataError, match=r"has two files for train: train.csv and train.tsv"):
        prepare_in(tmp_path, "feature-table", tmp_path, **OPTIONS)


def test_files_of_several_kinds(tmp_path):
    write_table(tmp_path / "a.csv", frame())
    write_table(tmp_path / "b.parquet", frame())
    with pytest.raises(DataError, match=r"contains .csv, .parquet files; pass one of them, e.g. .*a.csv"):
        prepare_in(tmp_path, "feature-table", tmp_path, **OPTIONS)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.zeros((3, 2)), "source is a ndarray; expected a path"),
        ({"qid": [1, 2], "label": [1]}, "the table: cannot be read"),
        ({}, "the table: cannot find the query"),
    ],
)
def test_things_that_are_no_tables(tmp_path, source, message):
    with pytest.raises(DataError, match=message):
        prepare_in(tmp_path, "feature-table", source)
