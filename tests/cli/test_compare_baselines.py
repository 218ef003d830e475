"""Simple recommenders beside runs, as a user asks for them."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from songrank.baselines import measure
from songrank.data import open_dataset
from songrank.metrics.comparison import paired_difference
from tests.cli.outcomes import refused
from tests.cli.small_sets import recipe


@pytest.fixture
def trained(songrank, tmp_path, monkeypatch):
    """Train the small run of a task below the current folder."""
    monkeypatch.chdir(tmp_path)

    def train(task="recommendation"):
        words, path = recipe(tmp_path, task)
        assert songrank(*words).returncode == 0
        assert songrank("train", path, "-o", "run", "-q").returncode == 0

    return train


def test_yardsticks_are_methods_with_paired_differences(compare, trained):
    trained()
    done = compare(
        "run", "--baseline-model", "ease", "--baseline-model", "popularity", "--baseline-model", "ease", "--json"
    )
    assert done.stderr == ""
    result = json.loads(done.stdout)
    assert (result["baseline"], [method["label"] for method in result["methods"]]) == (
        "song",
        ["song", "ease", "popularity"],
    )
    own = load_file("run/evaluation/test.safetensors")
    for method in result["methods"][1:]:
        name = method["label"]
        expected = measure(name, open_dataset("data"), select="ndcg@10", metrics=["ndcg@5", "mrr"])
        assert {metric: found["mean"] for metric, found in method["metrics"].items()} == expected.evaluation.values
        difference = paired_difference(expected.evaluation.per_query["ndcg@5"], torch.tensor(own["ndcg@5"]))
        found = method["differences"]["ndcg@5"]
        assert (found["mean"], found["low"], found["high"]) == (difference.mean, difference.low, difference.high)
        assert found["wins"] + found["ties"] + found["losses"] == 40
        assert (method["seeds"], method["runs"]) == ([0], [])
        assert method["yardstick"]["inputs"] == ["train", "validation"]
        (chosen,) = method["yardstick"]["chosen"]
        assert (chosen["options"], chosen["validation"]) == (expected.options, expected.validation)


def test_tables_hold_yardsticks_and_say_what_they_know(compare, trained):
    trained()
    Path("run").rename("one")
    shutil.copytree("one", "two")
    file = Path("two/config.yaml")
    file.write_text(file.read_text().replace("seed: 0", "seed: 1"))
    shown = compare(
        "one", "two", "--baseline-model", "ease", "--metric", "mrr", "--baseline", "ease"
    ).stdout.splitlines()
    assert [line.split()[:2] for line in shown[:3]] == [["method", "seeds"], ["song", "2"], ["ease", "1"]]
    assert "difference to ease" in shown[4]
    _, yardsticks, intervals = shown[-3:]
    assert yardsticks.startswith(
        "yardsticks: fitted to training; what they know of a user are the items of training and validation; "
        "ease: regularisation "
    )
    assert ", with which validation ndcg@10 is 0." in yardsticks
    assert "over queries and seeds; not adjusted" in intervals
    assert "one seed only" not in intervals
    on_validation = compare("one", "--baseline-model", "popularity", "--split", "validation", "--markdown").stdout
    assert "| popularity | 1 |" in on_validation
    assert "the items of training\n" in on_validation


def test_yardsticks_are_measured_on_every_data_set_of_the_runs(compare, trained, songrank):
    trained()
    words = ["movielens-1m", "source/ratings.dat", "-o", "other", "--holdout", "2", "-q"]
    assert songrank("data", "prepare", *words).returncode == 0
    assert songrank("train", "recipe.yaml", "data=other", "-o", "second", "-q").returncode == 0
    result = json.loads(compare("run", "second", "--baseline-model", "popularity", "--metric", "mrr", "--json").stdout)
    values = [
        measure("popularity", open_dataset(data), metrics="mrr").evaluation.values["mrr"] for data in ("data", "other")
    ]
    assert result["folds"] == 2
    assert result["methods"][1]["metrics"]["mrr"]["mean"] == pytest.approx(np.mean(values))
    assert [Path(one["data"]).name for one in result["methods"][1]["yardstick"]["chosen"]] == ["data", "other"]


def test_a_yardstick_finds_data_that_was_moved_where_it_is_said_to_be(compare, trained):
    trained()
    before = compare("run", "--baseline-model", "popularity").stdout
    Path("data").rename("moved")
    fix = "is no prepared data set; say with --data where the data set of run is now, or leave yardsticks out"
    refused(compare("run", "--baseline-model", "popularity"), fix)
    assert compare("run", "--baseline-model", "popularity", "--data", "moved").stdout == before


def test_yardsticks_of_other_lists_are_refused(compare, trained, songrank):
    trained()
    words = ["movielens-1m", "source/ratings.dat", "-o", "data", "--overwrite", "--holdout", "2", "-q"]
    assert songrank("data", "prepare", *words).returncode == 0
    message = "data: holds other lists than run was evaluated on; name the data set that it was evaluated on with"
    refused(compare("run", "--baseline-model", "popularity"), message)


@pytest.mark.parametrize("task", ["search", "labelling"])
def test_yardsticks_are_for_recommendation(compare, trained, task):
    trained(task)
    message = f"data: is a {task} data set; yardsticks are for recommendation: leave them out"
    refused(compare("run", "--baseline-model", "ease"), message)


def test_mistakes_about_yardsticks_are_one_line_before_anything_is_fitted(compare, write, monkeypatch):
    write("one")
    refused(compare("one", "--baseline-model", "easy"), "yardstick is 'easy'; expected one of ease, ials, popularity")
    refused(
        compare("one", "--baseline-model", "ease", "--baseline", "sing"), "baseline 'sing' is neither a label nor one"
    )
    refused(compare("one", "--baseline-model", "ease", "--metric", "mrr"), "one: has no 'mrr'; it has ndcg@10")
    refused(compare("one", "--baseline-model", "ease"), "data/a: is no prepared data set; say with --data where")
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    refused(compare("one", "--baseline-model", "ials"), 'not installed: pip install "songrank[yardsticks]"')
