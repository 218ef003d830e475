"""Faster forms in the training loop and in recipes: stopped and gone on with, the same bits."""

import pytest
import torch

from songrank import SlateSampler, models
from songrank.core.errors import UserError
from songrank.data import open_dataset, prepare
from songrank.losses.faster_ksong import FasterKSONG
from songrank.losses.faster_song import FasterSONG
from songrank.losses.schedules import Schedule
from songrank.training.build import make_trainer
from songrank.training.checkpoints import Checkpoints
from songrank.training.config.recipe import Recipe
from songrank.training.trainer.history_adapters import make_feed
from songrank.training.trainer.loop import Trainer
from songrank.training.trainer.stages import Stage


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("data") / "set"
    prepare("synthetic", None, made, queries=60, items=50, pairs=900)
    return made


def trainer(folder, name, optimiser="adam", checkpoints=None):
    torch.manual_seed(3)
    feed = make_feed(open_dataset(folder))
    sizes = (feed.relevance.num_pairs, feed.relevance.num_queries)
    loss = FasterSONG(*sizes, 16) if name == "song" else FasterKSONG(*sizes, 10, 16, gamma=Schedule())
    sampler = SlateSampler(feed.relevance, 16, relevant=4, irrelevant=20, k=loss.k)
    model = models.create("neumf", num_queries=sizes[1], num_items=feed.relevance.num_items, dim=8, hidden=(8,))
    rate = 5e-3 if optimiser == "adam" else 0.5
    stages = [Stage("fine-tuning", loss, sampler, 6, rate, {4: 0.5}, optimiser=optimiser)]
    kept = None if checkpoints is None else Checkpoints(checkpoints)
    return Trainer(model, feed, stages, checkpoints=kept, evaluate_every=2, seed=5)


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


def test_what_cannot_go_with_two_points_is_refused(folder):
    stage = trainer(folder, "song").stages[0]
    for wrong in ({"clip": 1.0}, {"optimiser": "lazy-adam"}, {"item_decay_power": 1.0}):
        with pytest.raises(ValueError, match="FasterSONG|a loss of two points"):
            Stage("fine-tuning", stage.loss, stage.sampler, 1, 1e-3, **wrong)


STAGE = {"epochs": 2, "learning_rate": 5e-3}
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
    ("loss", "stage", "message"),
    [
        ("song", {"correction": 2.0}, "fine_tuning.correction is 2.0; expected less than or equal to 1"),
        ("song", {"correction": 0.5}, "fine_tuning.correction is 0.5; expected none but with a loss of two points"),
        (
            {"name": "faster-song", "points": 1},
            {"correction": 0.5},
            "fine_tuning.correction is 0.5; expected none but with a loss of two points",
        ),
        ("faster-song", {"clip": 1.0}, "fine_tuning.clip is 1.0; expected none with a loss of two points"),
        (
            {"name": "faster-song", "points": 1},
            {"optimiser": "lazy-adam"},
            "fine_tuning.optimiser is 'lazy-adam'; expected adam or sgd with faster-song",
        ),
        (
            "faster-song",
            {"item_decay_power": 1},
            "fine_tuning.item_decay_power is 1.0; expected 0 with faster-song",
        ),
    ],
)
def test_what_does_not_go_with_a_loss_is_said_before_any_data_is_read(loss, stage, message):
    with pytest.raises(UserError, match=f"^{message}$"):
        Recipe.read({"data": "x", "model": "neumf", "loss": loss, "fine_tuning": {**STAGE, **stage}})


@pytest.mark.parametrize(
    ("gamma", "message"),
    [
        ("x", "loss.gamma is 'x'; expected a valid number"),
        ({"c0": -1}, r"loss.gamma.c0 is -1.0; expected a number in \(0, 1e\+12\]"),
        ({"b": 1}, "loss.gamma.b is no key of a schedule; expected one of c0, a, c"),
        ({"a": "x"}, "loss.gamma.a is 'x'; expected a valid number"),
    ],
)
def test_a_wrong_schedule_is_one_line(gamma, message):
    recipe = {"data": "x", "model": "neumf", "loss": {"name": "faster-song", "gamma": gamma}, "fine_tuning": STAGE}
    with pytest.raises(UserError, match=f"^{message}$"):
        Recipe.read(recipe)
