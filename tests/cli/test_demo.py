"""The command demo."""

import json

from songrank.cli import demo as demonstration
from songrank.training.config import recipe_files


def test_the_demonstration_ends_with_a_table_of_three_losses(songrank, tmp_path, monkeypatch):
    load = recipe_files.load_recipe
    short = ["warm_up.epochs=1", "fine_tuning.epochs=1"]
    monkeypatch.setattr(recipe_files, "load_recipe", lambda name, changes: load(name, [*changes, *short]))
    done = songrank("demo", "-o", tmp_path / "demo", "-q")
    assert done.returncode == 0, done.stderr
    for loss in demonstration.LOSSES:
        assert loss in done.stdout
        assert json.loads((tmp_path / "demo" / loss / "run.json").read_text())["status"] == "finished"
    assert "SONG is " in done.stdout
    again = songrank("demo", "-o", tmp_path / "demo", "-q")
    assert again.stdout == done.stdout
