"""A column of weights of a feature table: one a query, in the order of the split's queries."""

import polars as pl
import pytest

from songrank.data import DataError, open_dataset, prepare

ROWS = {
    "qid": ["b", "a", "b", "a", "c"],
    "label": [1, 0, 0, 1, 1],
    "score": [1.0, 2.0, 3.0, 4.0, 5.0],
    "importance": [2.0, 0.5, 2.0, 0.5, 3.0],
    "split": ["train", "train", "train", "train", "validation"],
}


def test_weights_go_with_their_queries_and_are_no_feature(tmp_path):
    made = prepare("feature-table", ROWS, tmp_path / "data", weight_column="importance", split="given")
    dataset = open_dataset(made.path)
    assert list(dataset.split_query_ids("train")) == ["a", "b"]
    assert dataset["train"].weight.tolist() == [0.5, 2.0]
    assert dataset["validation"].weight.tolist() == [3.0]
    assert dataset.info["features"]["names"] == ["score"]
    assert "weight" in dataset.info["columns"]


def test_without_the_option_there_are_none(tmp_path):
    dataset = prepare("feature-table", ROWS, tmp_path / "data", split="given")
    assert dataset["train"].weight is None
    assert "weight" not in dataset.info["splits"]["train"]["arrays"]


def test_parts_of_a_table_are_the_table(tmp_path):
    frame = pl.DataFrame(ROWS)
    whole = prepare("feature-table", frame, tmp_path / "whole", weight_column="importance", split="given")
    parts = iter([frame[:2], frame[2:]])
    split = prepare("feature-table", parts, tmp_path / "parts", weight_column="importance", split="given")
    assert whole.info == split.info


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            [2.0, 0.5, 1.0, 0.5, 3.0],
            "query 'b' has rows with weights 2 and 1; expected the same weight in all rows of a query",
        ),
        ([2.0, -0.5, 2.0, -0.5, 3.0], "row 2: importance is -0.5; expected a finite number of at least 0"),
        ([2.0, None, 2.0, 0.5, 3.0], "row 2: importance is missing; expected a finite number of at least 0"),
    ],
)
def test_weights_that_are_none_are_one_line(tmp_path, weights, message):
    table = {**ROWS, "importance": weights}
    with pytest.raises(DataError) as error:
        prepare("feature-table", table, tmp_path / "data", weight_column="importance", split="given")
    assert str(error.value).removeprefix("the table: ") == message
    assert not (tmp_path / "data").exists()
