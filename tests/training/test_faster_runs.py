"""Faster forms in the training loop and in recipes: stopped and gone on with, the same bits."""

import pytest
import torch

from songrank.core.errors import UserError
from songrank.data import open_dataset, prepare
from songrank.losses.schedules import Schedule
from songrank.training.build import make_trainer
from songrank.training.checkpoints import Checkpoints
from songrank.training.config.recipe import Recipe
from tests.training.faster_runs import STAGE, trainer


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("name", ["song", "k-song"])
def test_a_run_of_two_points_learns_and_ends_with_the_same_bits_when_stopped(name, optimiser, folder, tmp_path):
    whole = trainer(folder, name, optimiser)
    whole.run()
    if name == "song":  # six epochs are too few for the thresholds of K-SONG
        assert whole.at.history[-1]["loss"] < whole.at.history[0]["loss"]
    assert int(whole.stages[0].loss.steps) == whole.at.step
    first = trainer(folder, name, optimiser, tmp_path)
    first.tick = lambda: first.stop() if first.at.step == 9 else None
    first.run()
    assert first.at.step == 9
    second = trainer(folder, name, optimiser, tmp_path)
    second.run()
    assert second.at.history == whole.at.history
    for key, value in whole.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[key]), key


FORMS = {
    "two points": {},
    "one point": {"loss": {"points": 1}},
    "the paper's": {
        "loss": {"memory": "msvr", "lagged": False, "gamma": {"c0": 50.0, "a": 0.2}},
        "fine_tuning": {"optimiser": "sgd"},
    },
}


def by_recipe(dataset, model, name, form, checkpoints=None):
    more = FORMS[form]
    k = {"k": 5} if name == "faster-k-song" else {}
    recipe = Recipe.read(
        {
            "data": "x",
            "model": model,
            "batch": {"queries": 8, "relevant": 4, "irrelevant": 10},
            "warm_up": {"epochs": 1},
            "loss": {"name": name, **k, **more.get("loss", {})},
            "fine_tuning": {**STAGE, **more.get("fine_tuning", {})},
            "device": "cpu",
        }
    )
    kept = None if checkpoints is None else Checkpoints(checkpoints)
    return make_trainer(recipe, dataset, checkpoints=kept, warn=lambda message: None)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["faster-song", "faster-k-song"])
@pytest.mark.parametrize("task", ["recommendation", "search", "labelling"])
def test_a_recipe_trains_each_form_on_each_task_and_goes_on_where_it_stopped(task, name, form, tasks, tmp_path):
    dataset, model = tasks[task]
    whole = by_recipe(dataset, model, name, form)
    whole.run()
    assert all(torch.isfinite(weight).all() for weight in whole.model.parameters())
    loss = whole.stages[-1].loss
    assert (loss.steps > 0, loss.query_share <= 1.0) == (True, True)
    stop = whole.at.step - 2
    first = by_recipe(dataset, model, name, form, tmp_path)
    first.tick = lambda: first.stop() if first.at.step == stop else None
    first.run()
    second = by_recipe(dataset, model, name, form, tmp_path)
    second.run()
    assert second.at.history == whole.at.history
    for key, value in whole.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[key]), key


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    ids = prepare("synthetic", None, folder / "ids", queries=60, items=50, pairs=900)
    lists = prepare("synthetic", None, folder / "lists", task="search", queries=60)
    labels = prepare("synthetic", None, folder / "labels", task="labelling", queries=60, items=30)
    small = {"hidden": [8], "dropout": 0.1}
    return {
        "recommendation": (ids, {"name": "neumf", "dim": 8, "hidden": [8]}),
        "search": (lists, {"name": "context-aware", "dim": 8, "blocks": 1, "feed_forward": 8}),
        "labelling": (labels, {"name": "label-mlp", **small}),
    }


def test_a_schedule_reaches_both_memory_and_steps(folder):
    trainer = by_recipe(open_dataset(folder), {"name": "neumf", "dim": 8, "hidden": [8]}, "faster-song", "the paper's")
    stage = trainer.stages[-1]
    assert stage.loss.schedule == Schedule(c0=50.0, a=0.2)
    assert stage.make_optimiser(trainer.model).schedule == stage.loss.schedule


@pytest.mark.parametrize(
    ("gamma", "message"),
    [
        ("x", "loss.gamma is 'x'; expected a valid number"),
        ({"c0": -1}, r"loss.gamma.c0 is -1.0; expected a number in \(0, 1e\+12\]"),
        ({"b": 1}, "unknown key 'loss.gamma.b' of a schedule; expected one of c0, a, c"),
        ({"a": "x"}, "loss.gamma.a is 'x'; expected a valid number"),
    ],
)
def test_a_wrong_schedule_is_one_line(gamma, message):
    recipe = {"data": "x", "model": "neumf", "loss": {"name": "faster-song", "gamma": gamma}, "fine_tuning": STAGE}
    with pytest.raises(UserError, match=f"^{message}$"):
        Recipe.read(recipe)
