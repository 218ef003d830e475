"""Faster forms in the training loop: two points a step, stopped and gone on with, the same bits."""

import pytest
import torch

from songrank import SlateSampler, models
from songrank.data import open_dataset, prepare
from songrank.losses.faster_ksong import FasterKSONG
from songrank.losses.faster_song import FasterSONG
from songrank.losses.schedules import Schedule
from songrank.training.checkpoints import Checkpoints
from songrank.training.feeds import make_feed
from songrank.training.loop import Trainer
from songrank.training.stages import Stage


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
    for wrong in ({"clip": 1.0}, {"optimiser": "lazy-adam"}):
        with pytest.raises(ValueError, match="FasterSONG"):
            Stage("fine-tuning", stage.loss, stage.sampler, 1, 1e-3, **wrong)
