"""The owner of checkpoints: a recipe without later keys owns those of former versions."""

import json

from songrank.training.config.recipe import Recipe
from songrank.training.run import Run

VALUES = {
    "model": {"name": "neumf", "dim": 4, "hidden": [4]},
    "batch": {"queries": 16, "relevant": 4, "irrelevant": 8},
    "warm_up": {"epochs": 0},
    "device": "cpu",
}


def owner(run):
    run.finish()
    (*_, last) = sorted(run.directory.checkpoints.glob("step-*"))
    return json.loads((last / "state.json").read_text())["owner"]


def begun(dataset, path, **more):
    return Run.begin(Recipe.read({**VALUES, "data": str(dataset), "fine_tuning": {"epochs": 1}, **more}), path)


def test_later_keys_that_are_set_are_part_of_the_owner(dataset, tmp_path):
    plain = owner(begun(dataset, tmp_path / "plain"))
    assert owner(begun(dataset, tmp_path / "all", validation={"keep": "all"})) != plain
    assert owner(begun(dataset, tmp_path / "long", fine_tuning={"epochs": 1, "min_steps": 9})) != plain
