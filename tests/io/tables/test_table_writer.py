"""Tables written block by block."""

import polars as pl
import pytest

from songrank.core.errors import DataError
from songrank.io.tables import table_writer as writers
from songrank.io.tables.table_writer import table_writer, writing

READERS = {".csv": pl.read_csv, ".parquet": pl.read_parquet}


def interrupt(writer):
    """Write some rows, then fail as a full disk does."""
    writer.write(pl.DataFrame({"user": [1]}))
    with writing(writer.path):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("suffix", READERS)
def test_blocks_become_one_table(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(writers, "_PART_ROWS", 4)
    blocks = [pl.DataFrame({"user": range(at, at + 3), "item": ["a,b", "ä", "c"]}) for at in range(0, 12, 3)]
    path = tmp_path / "new" / f"best{suffix}"
    with table_writer(path) as writer:
        for block in blocks:
            writer.write(block)
    assert READERS[suffix](path).equals(pl.concat(blocks))
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", READERS)
def test_a_table_without_rows_keeps_its_columns(tmp_path, suffix):
    with table_writer(tmp_path / f"best{suffix}") as writer:
        writer.write(pl.DataFrame(schema={"user": pl.Int64, "item": pl.String}))
    assert READERS[suffix](tmp_path / f"best{suffix}").columns == ["user", "item"]


@pytest.mark.parametrize("suffix", READERS)
def test_an_error_leaves_what_was_there(tmp_path, suffix):
    path = tmp_path / f"best{suffix}"
    path.write_text("mine")
    with pytest.raises(DataError, match="cannot be written"), table_writer(path, overwrite=True) as writer:
        interrupt(writer)
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(DataError, match="already exists; pass --overwrite to replace it$"), table_writer(path):
        pytest.fail("a file that exists was opened for writing")


def test_columns_that_csv_lacks_are_rejected(tmp_path):
    rows = pl.DataFrame({"items": [[1, 2]]})
    message = "column 'items' is of type .*, which CSV does not support"
    with pytest.raises(DataError, match=message), table_writer(tmp_path / "best.csv") as writer:
        writer.write(rows)
    with table_writer(tmp_path / "best.parquet") as writer:
        writer.write(rows)
    assert pl.read_parquet(tmp_path / "best.parquet").equals(rows)


def test_texts_that_begin_like_formulas_are_escaped_if_asked(tmp_path):
    texts = ["=cmd()", "+1", "-1", "@a", "\tb", "a=b", "", None]
    rows = pl.DataFrame({"item": texts, "=sum": range(8), "score": [-1.0] * 8})
    rows = rows.with_columns(pl.col("item").cast(pl.Categorical).alias("kind"))
    for escape in (True, False):
        with table_writer(tmp_path / "best.csv", overwrite=True, escape=escape) as writer:
            writer.write(rows)
        found = pl.read_csv(tmp_path / "best.csv")
        expected = ["'=cmd()", "'+1", "'-1", "'@a", "'\tb", "a=b"] if escape else texts[:6]
        assert found["item"].to_list()[:6] == found["kind"].to_list()[:6] == expected
        assert found["score"].to_list() == rows["score"].to_list()
        assert found.columns == ["item", "'=sum" if escape else "=sum", "score", "kind"]
    with (
        pytest.raises(DataError, match=r"best.parquet: is not a CSV file; leave out --escape-formulas"),
        table_writer(tmp_path / "best.parquet", escape=True),
    ):
        pass
