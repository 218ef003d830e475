"""Recommending as a user does: a file of films with titles, a model folder without its data, tables in and out."""

import shutil

import polars as pl

from tests.cli.small_sets import recipe


def test_a_trained_run_with_nothing_but_its_folder(songrank, tmp_path):
    words, path = recipe(tmp_path, "recommendation")
    assert songrank(*words).returncode == 0
    assert songrank("train", path, "-o", tmp_path / "run", "-q").returncode == 0
    shutil.rmtree(tmp_path / "data")
    done = songrank("recommend", tmp_path / "run", "-o", tmp_path / "best.parquet", "-k", 4)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"40 users; wrote 160 rows to {tmp_path / 'best.parquet'}\n"
    table = pl.read_parquet(tmp_path / "best.parquet")
    assert table.schema == {
        "user": pl.Int64,
        "item": pl.Int64,
        "score": pl.Float32,
        "rank": pl.Int64,
        "source": pl.String,
    }
    met = {tuple(map(int, line.split("::")[:2])) for line in (tmp_path / "source" / "ratings.dat").read_text().split()}
    assert not met & set(table.select("user", "item").rows())
