"""Ranking documents as a user does: tables with names, LETOR text, rows in any order, and every way to be wrong."""

import shutil

import polars as pl

from tests.cli.small_sets import recipe


def test_a_trained_run_ranks_letor_text(songrank, tmp_path):
    words, path = recipe(tmp_path, "search")
    assert songrank(*words).returncode == 0
    assert songrank("train", path, "-o", tmp_path / "run", "-q").returncode == 0
    shutil.rmtree(tmp_path / "data")
    source = tmp_path / "source" / "test.txt"
    done = songrank("rank", tmp_path / "run", source, "-o", tmp_path / "ranked.csv", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    rows = len(source.read_text().splitlines())
    assert done.stdout == f"12 queries; wrote {rows} ranked documents to {tmp_path / 'ranked.csv'}\n"
    table = pl.read_csv(tmp_path / "ranked.csv")
    assert table.columns == ["query", "row", "score", "rank"]
    assert table["row"].to_list() == list(range(rows))
