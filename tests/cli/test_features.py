"""Features of items and users, and cold start, from the command line."""

import json

import numpy as np
import polars as pl
import pytest

from tests.cli.outcomes import refused

USERS, ITEMS = 40, 40
SMALL = ("model.dim=8", "fine_tuning.epochs=40", "fine_tuning.min_steps=1", "batch.irrelevant=8", "device=cpu")


@pytest.fixture
def files(tmp_path):
    """Interactions and tables, of which the users have a hostile name of a column."""
    random = np.random.default_rng(0)
    rows = [
        (user, item)
        for user in range(USERS)
        for item in random.permutation([x for x in range(ITEMS) if (x - user) % 2 == 0])[:10]
    ]
    pl.DataFrame(rows, schema=["user", "item"], orient="row").write_csv(tmp_path / "log.csv")
    half = ["a" if x % 2 else "<b>;=1+1" for x in range(ITEMS)]
    pl.DataFrame({"item": range(ITEMS), "half": half}).write_parquet(tmp_path / "items.parquet")
    users = {"user": range(USERS), "\x1b[31msex": ["mf"[x % 2] for x in range(USERS)]}
    pl.DataFrame(users).write_csv(tmp_path / "users.csv")
    (tmp_path / "new.csv").write_text("item,half\n7,a\n100,a\n101,<b>;=1+1\n102,new\n")
    return tmp_path


@pytest.fixture
def run(songrank, files):
    tables = ("--items", files / "items.parquet", "--users", files / "users.csv", "--item-columns", "half=categorical")
    words = (*tables, "--cold-items", "0.1", "-o", files / "set")
    done = songrank("data", "prepare", "interactions", files / "log.csv", *words)
    assert done.returncode == 0
    assert "item features: half (categorical)" in done.stdout
    assert "\x1b" not in done.stdout  # in the note on users
    assert "cold items: 4 with" in done.stdout
    assert songrank("train", "recommendation", f"data={files / 'set'}", *SMALL, "-o", files / "run").returncode == 0
    return files / "run"


def test_warm_and_cold_items_are_shown_beside_other_methods(songrank, run):
    done = songrank("evaluate", run, "--cold-items", "--beside", run, "--metric", "ndcg@10")
    assert done.returncode == 0
    warm, cold = done.stdout.split("warm items: ")[1].split("cold items: ")
    assert warm.startswith("32 candidates, 40 users with targets\n")
    assert cold.startswith("8 candidates, ")
    for part, names in ((warm, ("popularity ",)), (cold, ("popularity from features",))):
        for name in (*names, "similarity of features", "random", str(run)):
            assert f"\n{name}" in part
    told = json.loads(songrank("evaluate", run, "--cold-items", "--metric", "ndcg@10", "--json").stdout)
    assert [segment["name"] for segment in told["segments"]] == ["warm items", "cold items"]
    values = told["segments"][1]["values"]
    assert f"{values['random']['ndcg@10']:.4f}" in cold
    assert values["run"]["ndcg@10"] > values["random"]["ndcg@10"]


def test_new_items_are_recommended(songrank, run, files):
    (files / "allowed.txt").write_text("item\n100\n101\n")
    words = ("--new-items", files / "new.csv", "--allow", files / "allowed.txt", "-k", "1", "--device", "cpu")
    done = songrank("recommend", run, *words, "-o", files / "best.csv")
    assert done.returncode == 0
    assert "3 new items from" in done.stderr
    assert "1 value of half unknown in training" in done.stderr
    best = pl.read_csv(files / "best.csv")
    wanted = pl.Series([100 if user % 2 else 101 for user in best["user"]])
    assert (best["item"] == wanted).mean() > 0.9


def test_errors_are_one_line(songrank, run, files):
    refused(songrank("evaluate", run, "--beside", run), "--beside is given; expected it with --cold-items only")
    done = songrank("recommend", run, "--new-items", files / "log.csv", "-o", files / "b.csv")
    refused(done, "is repeated; keep one row")
    words = ("data", "prepare", "interactions", files / "log.csv", "-o", files / "other")
    refused(songrank(*words, "--items", files / "none.csv"), "none.csv")
    refused(songrank(*words, "--items", files / "items.parquet", "--item-columns", "half"), "NAME=KIND,NAME=KIND")
    refused(songrank(*words, "--cold-items", "0.7"), "option cold_items is '0.7'; expected")


def test_a_model_without_features_takes_no_new_items(songrank, files):
    assert songrank("data", "prepare", "interactions", files / "log.csv", "-o", files / "set").returncode == 0
    words = ("recommendation", f"data={files / 'set'}", *SMALL, "-o", files / "run", "-q")
    assert songrank("train", *words).returncode == 0
    done = songrank("recommend", files / "run", "--new-items", files / "new.csv", "-o", files / "best.csv")
    refused(done, "contains matrix-factorisation, to which no items can be added")
