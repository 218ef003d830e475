"""Names of items from a table."""

import polars as pl
import pytest

from songrank.core.errors import DataError
from songrank.serving import open_model
from songrank.serving.item_names import read_names
from tests.serving.small_recommend_models import TITLES


@pytest.fixture
def folder(model):
    return open_model(model)


def write(file, rows, columns=("item", "title")):
    frame = pl.DataFrame(rows, schema=list(columns), orient="row")
    frame.write_parquet(file) if file.suffix == ".parquet" else frame.write_csv(file)
    return file


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_each_item_has_its_first_name(folder, tmp_path, suffix):
    rows = [(title, f"name of {title}") for title in TITLES[::2]]
    rows += [(TITLES[0], "a second name"), ("unknown", "of no item"), (TITLES[1], None), (TITLES[1], "")]
    found = read_names(write(tmp_path / f"names.{suffix}", rows), folder)
    expected = {title: f"name of {title}" for title in TITLES[::2]}
    assert found == [expected.get(item) for item in folder.item_ids]


def test_columns_are_found_by_name_or_given(folder, tmp_path):
    rows = [(1990, f"film {title}", title) for title in TITLES]
    file = write(tmp_path / "names.csv", rows, ("year", "Name", "movieId"))
    assert read_names(file, folder) == [f"film {item}" for item in folder.item_ids]
    odd = write(tmp_path / "odd.csv", rows, ("a", "b", "c"))
    assert read_names(odd, folder, item_column="c", name_column="b") == [f"film {item}" for item in folder.item_ids]
    assert read_names(odd, folder, item_column="c", name_column="a") == ["1990"] * len(folder.item_ids)


@pytest.mark.parametrize(
    ("columns", "given", "message"),
    [
        (("a", "title"), {}, "cannot find the item column among 'a', 'title'; pass --item-column"),
        (("item", "b"), {}, "cannot find the name column among 'item', 'b'; pass --name-column"),
        (("item", "title"), {"name_column": "x"}, "has no name column 'x'"),
    ],
)
def test_missing_columns_are_named(folder, tmp_path, columns, given, message):
    file = write(tmp_path / "names.csv", [(title, title) for title in TITLES], columns)
    with pytest.raises(DataError, match=f"names.csv: {message}"):
        read_names(file, folder, **given)


def test_a_table_of_other_items_is_rejected(folder, tmp_path):
    file = write(tmp_path / "names.csv", [("x", "y")])
    with pytest.raises(DataError, match="has a name for none of the 30 items of the model; check the column of items"):
        read_names(file, folder)
