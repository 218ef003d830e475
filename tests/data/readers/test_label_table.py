"""Features and lists of labels in one table, in memory or as Parquet."""

import polars as pl
import pytest

from songrank.data import DataError, prepare

ROWS = {
    "length": [1.0, 0.0, 3.0, 4.0],
    "labels": [["tax", "law"], [], ["law", "law"], ["sea"]],
    "width": [5, 6, 0, 8],
}
DIVIDED = {"validation": 0, "test": 0.25}


def dense(split):
    return split.features.dense(range(split.num_queries), split.num_features).tolist()


def test_a_frame_and_its_file_are_the_same_data_set(tmp_path):
    pl.DataFrame(ROWS).write_parquet(tmp_path / "rows.parquet")
    one = prepare("label-table", pl.DataFrame(ROWS), tmp_path / "one", **DIVIDED)
    two = prepare("label-table", tmp_path / "rows.parquet", tmp_path / "two", **DIVIDED)
    assert one.info["splits"] == two.info["splits"]
    assert list(one.item_ids) == ["law", "sea", "tax"]
    assert one.info["features"]["names"] == ["length", "width"]
    found = {}
    for name in one:
        part = one[name]
        for at, row in enumerate(one.split_query_ids(name)):
            items = part.item[int(part.offsets[at]) : int(part.offsets[at + 1])]
            found[row] = (one.item_ids[items], dense(part)[at])
    expected = [sorted(set(labels)) for labels in ROWS["labels"]]
    assert [found[row][0] for row in range(4)] == expected
    assert [found[row][1] for row in range(4)] == [[1, 5], [0, 6], [3, 0], [4, 8]]
    assert one.info["made"]["left_out"] == {"labels repeated in a row": 1}


def test_labels_keep_their_type(tmp_path):
    rows = {**ROWS, "labels": [[30, 2**40], [], [30], [-7]]}
    assert list(prepare("label-table", rows, tmp_path / "data", **DIVIDED).item_ids) == [-7, 30, 2**40]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": ["a", "b", "c", "d"]}, "labels is of type String; expected a list of"),
        ({"labels": [["a"], None, ["b"], []]}, "labels is missing in a row; expected a list of"),
        (
            {"labels": [["a"], [None], ["b"], []]},
            "labels contains a missing or empty label; expected a list of",
        ),
        ({"labels": [[0.5], [], [], []]}, "labels is of type List(Float64); expected a list of"),
        ({"width": [1, None, 2, 3]}, "row 2: width is missing; expected a finite number"),
        ({"width": ["a", "b", "c", "d"]}, "row 1: width is 'a'; expected a finite number"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, change, message):
    with pytest.raises(DataError) as error:
        prepare("label-table", {**ROWS, **change}, tmp_path / "data", **DIVIDED)
    assert str(error.value).startswith(f"the table: {message}")
    assert not (tmp_path / "data").exists()


def test_other_files_are_refused_in_words(tmp_path):
    (tmp_path / "rows.csv").write_text("a,labels\n1,2\n")
    with pytest.raises(DataError, match="rows.csv: is not a Parquet file; expected a Parquet file or a DataFrame$"):
        prepare("label-table", tmp_path / "rows.csv", tmp_path / "data")
