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


def test_ids_that_a_spreadsheet_would_read_as_formulas_are_escaped_if_asked(songrank, tmp_path):
    lines = ["user,item"] + [
        f"=u{user},{'=+-@'[item % 4]}i{item}" for user in range(12) for item in range(user, user + 6)
    ]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    assert songrank("data", "prepare", "interactions", tmp_path / "log.csv", "-o", tmp_path / "data").returncode == 0
    short = ["model.dim=4", "warm_up.epochs=1", "fine_tuning.epochs=1", "device=cpu"]
    run = ["train", "recommendation", f"data={tmp_path / 'data'}", *short, "-o", tmp_path / "run", "-q"]
    assert songrank(*run).returncode == 0
    words = ["recommend", tmp_path / "run", "-k", 3, "-q", "-o"]
    assert songrank(*words, tmp_path / "plain.csv").returncode == 0
    assert songrank(*words, tmp_path / "escaped.csv", "--escape-formulas").returncode == 0
    plain, escaped = (pl.read_csv(tmp_path / f"{name}.csv") for name in ("plain", "escaped"))
    assert plain["item"].str.contains("^[=+@-]").all()
    assert escaped.equals(plain.with_columns(user="'" + pl.col("user"), item="'" + pl.col("item")))
    done = songrank(*words, tmp_path / "best.parquet", "--escape-formulas")
    assert done.returncode == 2
    assert "best.parquet: is not a CSV file; leave out --escape-formulas" in done.stderr
