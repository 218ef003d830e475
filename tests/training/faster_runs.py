"""Helpers that tests of several modules share."""

import torch

from songrank import SlateSampler, models
from songrank.data import open_dataset
from songrank.losses.faster_ksong import FasterKSONG
from songrank.losses.faster_song import FasterSONG
from songrank.losses.schedules import Schedule
from songrank.training.checkpoints import Checkpoints
from songrank.training.trainer.history_adapters import make_adapter
from songrank.training.trainer.loop import Trainer
from songrank.training.trainer.stages import Stage


def trainer(folder, name, optimiser="adam", checkpoints=None):
    torch.manual_seed(3)
    feed = make_adapter(open_dataset(folder))
    sizes = (feed.relevance.num_pairs, feed.relevance.num_queries)
    loss = FasterSONG(*sizes, 16) if name == "song" else FasterKSONG(*sizes, 10, 16, gamma=Schedule())
    sampler = SlateSampler(feed.relevance, 16, relevant=4, irrelevant=20, k=loss.k)
    model = models.create("neumf", num_queries=sizes[1], num_items=feed.relevance.num_items, dim=8, hidden=(8,))
    rate = 5e-3 if optimiser == "adam" else 0.5
    stages = [Stage("fine-tuning", loss, sampler, 6, rate, {4: 0.5}, optimiser=optimiser)]
    kept = None if checkpoints is None else Checkpoints(checkpoints)
    return Trainer(model, feed, stages, checkpoints=kept, evaluate_every=2, seed=5)


STAGE = {"epochs": 2, "learning_rate": 5e-3}
