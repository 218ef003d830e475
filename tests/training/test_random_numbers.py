"""Trainings in several threads of a process, and the random numbers of the caller."""

from threading import Thread

import pytest
import torch

from songrank.data import prepare
from songrank.training import Run
from songrank.training.config.recipe import Recipe
from tests.data.small_log import log


@pytest.fixture
def recipe(tmp_path):
    few = {"epochs": 3, "learning_rate": 0.01}
    model = {"name": "neumf", "dim": 4, "hidden": [4], "dropout": 0.5}
    data = prepare("interactions", log(), tmp_path / "data").path
    return Recipe.read({"data": str(data), "model": model, "device": "cpu", "warm_up": few, "fine_tuning": few})


def weights(place):
    return (place / "model.safetensors").read_bytes()


def test_a_run_restores_the_random_numbers_of_the_caller(recipe, tmp_path):
    before = torch.get_rng_state()
    run = Run.begin(recipe, tmp_path / "run")
    assert torch.equal(torch.get_rng_state(), before)
    run.finish()
    assert torch.equal(torch.get_rng_state(), before)


def test_runs_in_two_threads_have_the_weights_of_runs_alone(recipe, tmp_path):
    other = recipe.model_copy(update={"seed": 1})
    for name, one in (("first", recipe), ("second", other)):
        Run.begin(one, tmp_path / name).finish()
    begun = []

    def second():
        Run.begin(other, tmp_path / "second-thread").finish()

    def tick():
        if not begun:  # after the first step
            begun.append(Thread(target=second))
            begun[0].start()

    Run.begin(recipe, tmp_path / "first-thread", tick=tick).finish()
    begun[0].join()
    for name in ("first", "second"):
        assert weights(tmp_path / f"{name}-thread") == weights(tmp_path / name)
