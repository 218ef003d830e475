"""Experiments and their registry."""

import os
import subprocess
import sys

from songrank_paper import load_all, load_experiment
from songrank_paper.experiment import Cell


def test_every_experiment_goes_by_its_name():
    loaded = load_all()
    assert {"fig-functions", "table-stats", "fig-complexity", "fig-stop-gradient"} <= set(loaded)
    for name, experiment in loaded.items():
        assert experiment.name == name
        assert "\n" not in experiment.title
        assert load_experiment(name).title == experiment.title


def test_keys_depend_on_content_alone():
    work, options = "tests.songrank_paper.tiny:train", {"seed": 0, "epochs": 2, "set": {"b": 1, "a": [1, 2]}}
    key = Cell("a", work, options, {"path": "/here"}).key
    turned = {"set": {"a": [1, 2], "b": 1}, "epochs": 2, "seed": 0}
    assert Cell("b", work, turned, {"path": "/there"}).key == key
    assert Cell("a", work, {**options, "seed": 1}).key != key
    assert Cell("a", "tests.songrank_paper.tiny:shift", options).key != key
    program = f"from songrank_paper.experiment import Cell; print(Cell('a', {work!r}, {options!r}).key)"
    other = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": "7"}, capture_output=True, text=True
    )
    assert other.stdout.strip() == key
