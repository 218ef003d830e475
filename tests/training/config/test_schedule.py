"""Schedules that fit the data: batch sizes, epochs and evaluations by numbers of steps."""

import math

import pytest

from songrank.training.build import make_trainer
from songrank.training.config.recipe import Batch, FineTuning, Recipe
from songrank.training.config.recipe_files import load_recipe
from songrank.training.config.schedule import batch_size, epochs_of, stage_lengths

OWN = ("recommendation", "neumf", "histories", "sequences")


@pytest.mark.parametrize("queries", [1, 15, 16, 120, 255, 256, 257, 480, 481, 610, 943, 3840, 3841, 10**6])
def test_the_batch_is_the_largest_power_of_two_with_enough_steps(queries):
    enough = [size for size in (256, 128, 64, 32, 16) if math.ceil(queries / size) >= 16]
    assert batch_size(queries) == max(enough, default=16)


def test_a_given_batch_size_is_kept():
    assert Batch(queries=999).fitted(10).size == 999
    assert Batch(queries="auto").fitted(10).size == 16


@pytest.mark.parametrize("value", [0, -1, 1.5, "all", "many", True, 10**9])
def test_an_invalid_batch_size_is_one_line(value):
    values = {"data": "x", "model": "neumf", "fine_tuning": {"epochs": 1}, "batch": {"queries": value}}
    with pytest.raises(
        ValueError, match=r"^batch.queries is .*; expected 'auto' or a whole number from 1 to 999999999$"
    ):
        Recipe.read(values)


@pytest.mark.parametrize(("epochs", "least", "steps"), [(10, 100, 7), (10, 0, 7), (0, 100, 7), (3, 100, 200)])
def test_a_stage_has_its_epochs_or_its_steps(epochs, least, steps):
    found = epochs_of(epochs, least, steps)
    assert found == epochs or (found * steps >= least > (found - 1) * steps)
    assert found >= epochs
    assert bool(found) == bool(epochs)


def test_decay_and_ema_keep_their_place_in_the_stage():
    section = FineTuning(epochs=10, min_steps=400, decay={5: 0.5, 9: 0.1}, ema_decay=0.9)
    found = stage_lengths(section, 10)
    assert (found["epochs"], found["decay"]) == (40, {20: 0.5, 36: 0.1})
    assert found["ema_decay"] ** 40 == pytest.approx(0.9**10)
    assert stage_lengths(section, 40) == {"epochs": 10, "decay": {5: 0.5, 9: 0.1}, "ema_decay": 0.9}


def test_the_trainer_has_these_lengths(dataset):
    values = {
        "data": str(dataset),
        "model": {"name": "neumf", "dim": 4, "hidden": [4]},
        "batch": {"queries": "auto", "relevant": 4, "irrelevant": 8},
        "warm_up": {"epochs": 2, "min_steps": 40},
        "fine_tuning": {"epochs": 50, "min_steps": 40},
        "validation": {"every": 1, "min_steps": 20, "keep": "all", "patience": 3},
        "device": "cpu",
    }
    from songrank.data import open_dataset

    run = make_trainer(Recipe.read(values), open_dataset(dataset))
    steps = len(run.stages[0].sampler)
    assert run.stages[0].sampler.queries_per_batch == batch_size(run.stages[0].sampler.num_queries)
    assert [stage.epochs for stage in run.stages] == [math.ceil(40 / steps), max(50, math.ceil(40 / steps))]
    assert (run.evaluate_every, run.keep, run.patience) == (math.ceil(20 / steps), "all", 3)


@pytest.mark.parametrize("name", OWN)
def test_the_recipes_for_own_data_count_steps_stop_early_and_keep_the_best(name):
    recipe = load_recipe(name)
    assert recipe.fine_tuning.min_steps
    assert recipe.warm_up.min_steps or not recipe.warm_up.epochs
    assert (recipe.validation.keep, bool(recipe.validation.min_steps), bool(recipe.validation.patience)) == (
        "all",
        True,
        True,
    )


def test_a_changed_number_of_epochs_is_exact():
    recipe = load_recipe("neumf", ["fine_tuning.epochs=3", "validation.every=2"])
    assert (recipe.fine_tuning.epochs, recipe.fine_tuning.min_steps) == (3, 0)
    assert (recipe.validation.every, recipe.validation.min_steps) == (2, 0)
    assert recipe.warm_up.min_steps > 0
    both = load_recipe("neumf", ["fine_tuning.min_steps=70", "fine_tuning.epochs=3"])
    assert (both.fine_tuning.epochs, both.fine_tuning.min_steps) == (3, 70)
