"""Fixtures that tests of several modules share."""

import csv
import random
import shutil

import polars as pl
import pytest
import torch

from songrank import models
from songrank.data import prepare
from songrank.training.trained_model import model_sizes, write_model
from tests.serving.small_rank_models import documents, write
from tests.serving.small_recommend_models import TITLES, USERS


@pytest.fixture(scope="module", params=["none", "z-rank"])
def named(request, tmp_path_factory):
    """A model of features that have names."""
    place = tmp_path_factory.mktemp("named")
    table = pl.DataFrame(documents(1))
    dataset = prepare("feature-table", table, place / "data", within_query=request.param, missing="mean")
    made = write(dataset, place / "model")
    shutil.rmtree(place / "data")
    return made


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("films")
    rng = random.Random(1)
    with (place / "ratings.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["userId", "item", "rating", "timestamp"])
        for user in USERS:
            writer.writerows([user, title, 5, time] for time, title in enumerate(rng.sample(TITLES, 8)))
    dataset = prepare("interactions", place / "ratings.csv", place / "data")
    torch.manual_seed(0)
    made = models.create("neumf", dim=4, hidden=(4,), **model_sizes(dataset))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    write_model(place / "model", made, {"name": "neumf", "dim": 4, "hidden": [4]}, dataset)
    (place / "data").rename(place / "gone")  # it is not needed any more
    return place / "model"
