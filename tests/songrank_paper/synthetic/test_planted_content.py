"""Contents of synthetic data sets."""

import subprocess
import sys

import pytest

from songrank.data import DataError, prepare
from songrank_paper.synthetic import Plan, make_plan
from tests.songrank_paper.synthetic.small_sets import SMALL, TASKS


def hashes(dataset):
    return {split: dataset.info["splits"][split]["sha256"] for split in dataset}


@pytest.mark.parametrize("task", TASKS)
def test_the_counts_are_those_asked_for(tmp_path, task):
    asked = SMALL[task]
    dataset = prepare("synthetic", None, tmp_path / "made", task=task, seed=3, **asked)
    assert (dataset.num_queries, dataset.num_items) == (asked["queries"], asked["items"])
    assert list(dataset) == ["train", "validation", "test"]
    if task == "search":
        assert all(dataset[split].features.shape[1] == 7 for split in dataset)
    else:
        assert dataset.num_pairs == asked["pairs"]
    if task == "labelling":
        assert dataset["test"].num_features == 400


@pytest.mark.parametrize("task", TASKS)
def test_a_seed_decides_every_byte_and_another_gives_others(tmp_path, task):
    made = [
        hashes(prepare("synthetic", None, tmp_path / str(number), task=task, seed=seed, **SMALL[task]))
        for number, seed in enumerate((7, 7, 8))
    ]
    assert made[0] == made[1]
    assert all(made[0][split] != made[2][split] for split in made[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queries": 10, "items": 5, "pairs": 51}, "pairs is 51; expected 30 to 50 for 10 queries and 5 items"),
        (
            {"queries": 50, "items": 5000, "pairs": 4999},
            "pairs is 4,999; expected 5,000 to 125,000 for 50 queries and 5,000",
        ),
        ({"task": "search", "pairs": 10}, "pairs is 10; not an option of search: leave it out"),
        ({"task": "search", "holdout": 2}, "holdout is 2; not an option of search"),
        ({"task": "search", "shape": "netflix"}, "shape is 'netflix'; search has demo, mslr-web10k"),
        ({"task": "labelling", "words": 600}, "words is 600; expected 1 to 500 for 1,000 features"),
        ({"queries": 5}, "option queries is 5; expected"),
        ({"noise": 1.5}, "option noise is 1.5"),
    ],
)
def test_numbers_that_do_not_fit_are_refused_in_one_line(tmp_path, options, message):
    with pytest.raises(DataError) as raised:
        prepare("synthetic", None, tmp_path / "made", **options)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "made").exists()


def test_the_plan_is_kept_with_the_data(demo):
    stored = demo["search"].info["synthetic"]
    assert Plan(**{**stored, "parts": tuple(stored["parts"])}) == make_plan("search")


def test_numpy_and_torch_are_enough_to_make_it():
    code = """
import sys
from songrank_paper.synthetic import draw_pairs, draw_texts, make_plan, planted_relevance
next(draw_pairs(make_plan())), next(draw_texts(make_plan("labelling"))), planted_relevance(make_plan("search"))
print(*sys.modules)
"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"polars", "pydantic", "pandas", "scipy", "safetensors"}.isdisjoint(name.split(".")[0] for name in loaded)
