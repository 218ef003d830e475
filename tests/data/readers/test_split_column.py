"""A column that names splits."""

import polars as pl
import pytest

from songrank.core.errors import DataError
from songrank.data.readers.split_column import read_splits
from songrank.io.tables.input_table import Block


def block(values, dtype=None):
    return Block(pl.DataFrame({"part": pl.Series(values, dtype=dtype)}), "log.csv")


def test_usual_names_in_any_case():
    names = ["train", "Training", " trn", "valid", "VAL", "vali", "dev", "validation", "test", "tst"]
    assert read_splits(block(names), "part").tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 2, 2]
    assert read_splits(block(["test", "train"], pl.Categorical), "part").tolist() == [2, 0]


def test_unknown_values_are_listed():
    wanted = r"log\.csv: row 2: part is 'tset'; expected train, validation or test, or a synonym such as val or dev"
    with pytest.raises(DataError, match=wanted + "; unknown values are 'tset', 'old'$"):
        read_splits(block(["train", "tset", "old", "tset"]), "part")
    with pytest.raises(DataError, match=wanted + "$"):
        read_splits(block(["train", "tset"]), "part")
    with pytest.raises(DataError, match="'e' and 2 more$"):
        read_splits(block(list("abcdefg")), "part")


@pytest.mark.parametrize(
    ("values", "found"), [(["train", None], "row 2: part is missing"), ([0, 1], "row 1: part is 0")]
)
def test_missing_values_and_numbers(values, found):
    with pytest.raises(DataError, match=found):
        read_splits(block(values), "part")
