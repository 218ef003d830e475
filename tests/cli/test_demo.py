"""The command demo."""

import json
import re

import pytest

from songrank.cli import demo as demonstration
from songrank.data import demo as shop
from songrank.training.config import recipe_files


@pytest.fixture
def short(monkeypatch):
    load = recipe_files.load_recipe
    monkeypatch.setattr(
        recipe_files, "load_recipe", lambda name, changes: load(name, [*changes, "fine_tuning.epochs=2"])
    )
    monkeypatch.setattr(demonstration, "LEARNING_RATES", (0.03, 0.1))
    write = shop.write_shop
    monkeypatch.setattr(shop, "write_shop", lambda folder: write(folder, queries=30))


def test_the_demo_compares_all_losses_and_ends_with_a_ranking_a_report_and_the_next_commands(songrank, tmp_path, short):
    done = songrank("demo", "-o", tmp_path / "demo", "-q")
    assert done.returncode == 0, done.stderr
    for loss, name in demonstration.LOSSES.items():
        assert f"\n {name} " in done.stdout
        for rate in demonstration.LEARNING_RATES:
            notes = json.loads((tmp_path / "demo" / "runs" / f"{loss}-{rate:g}" / "run.json").read_text())
            assert notes["status"] == "finished"
    new = min(line.split(",")[0] for line in (tmp_path / "demo" / shop.NEW).read_text().splitlines()[1:])
    assert f"new query “{new}”" in " ".join(done.stdout.split())
    verdict = " ".join(done.stdout.split()).partition("SONG is ")[2].partition(" (95 %, paired by query).")[0]
    names = list(demonstration.LOSSES.values())[1:]
    assert sorted(re.findall("|".join(names), verdict)) == sorted(names)
    assert len(set(re.findall("significantly above|significantly below|not significantly different", verdict))) == len(
        verdict.split("; ")
    )
    assert (tmp_path / "demo" / "report.html").read_text().startswith("<!doctype html>")
    for command in ("data prepare feature-table", "train search", "rank runs/mine"):
        assert f"  songrank {command}" in done.stdout
    again = songrank("demo", "-o", tmp_path / "demo", "-q")
    assert again.stdout == done.stdout


def test_an_interrupted_demo_is_resumed(songrank, tmp_path, short, monkeypatch):
    from songrank.training.run import Run

    finish, seen = Run.finish, []

    def interrupted(run):
        if len(seen) == 3:
            raise KeyboardInterrupt
        seen.append(run)
        return finish(run)

    monkeypatch.setattr(Run, "finish", interrupted)
    assert songrank("demo", "-o", tmp_path / "demo", "-q").returncode == 130
    monkeypatch.setattr(Run, "finish", finish)
    resumed = songrank("demo", "-o", tmp_path / "demo", "-q")
    assert resumed.stdout == songrank("demo", "-o", tmp_path / "demo", "-q").stdout


def test_new_queries_have_no_grades_and_are_not_in_the_training_data(tmp_path):
    shop.write_shop(tmp_path, queries=20, new=2)
    graded, new = ((tmp_path / name).read_text().splitlines() for name in (shop.GRADED, shop.NEW))
    assert "grade" in graded[0]
    assert "grade" not in new[0]
    queries, unseen = ({line.split(",")[0] for line in lines[1:]} for lines in (graded, new))
    assert (len(queries), len(unseen)) == (20, 2)
    assert not queries & unseen
    assert {line.split(",")[3] for line in graded[1:]} == set("01234")


def test_the_shop_is_the_same_each_time(tmp_path):
    for name in ("a", "b"):
        shop.write_shop(tmp_path / name, queries=5, new=1)
    assert (tmp_path / "a" / shop.GRADED).read_bytes() == (tmp_path / "b" / shop.GRADED).read_bytes()
