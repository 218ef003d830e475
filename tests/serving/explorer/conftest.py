"""Two models of the same users, one of histories and one of ids, with names that attack the page."""

import csv
import random
from typing import NamedTuple

import pytest
import torch

from songrank import models
from songrank.data import prepare
from songrank.models import SequenceModel
from songrank.serving import open_model
from songrank.serving.explorer import Explorer
from songrank.serving.item_names import read_names
from songrank.training.trained_model import model_sizes, write_model

ITEMS = [*(f"i{number}" for number in range(24)), "<b id=attack>i</b>", "=1+1"]
"""Ids of items; two of them are markup and a formula."""
ATTACK = "<img src=x onerror=\"document.title='attacked'\">\x1b[31m&amp;\u202e"
LENGTH = 4


class Films(NamedTuple):
    place: object
    log: dict
    """The items of each user, oldest first."""
    folders: dict
    names: list


@pytest.fixture(scope="session")
def films(tmp_path_factory):
    place, rng = tmp_path_factory.mktemp("explored"), random.Random(5)
    users = [*(f"u{number}" for number in range(12)), "<i>u</i>"]
    log = {user: rng.sample(ITEMS, rng.randint(2, 7)) for user in users}
    log |= {f"c{part}": ITEMS[part::3] for part in range(3)}  # every item is in the log
    log["u1"] = [ITEMS[24], "i3", "i5", "=1+1"]
    with (place / "log.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["user", "item", "timestamp"])
        writer.writerows([user, item, time] for user, items in log.items() for time, item in enumerate(items))
    with (place / "films.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["item", "title"])
        writer.writerows([item, ATTACK if item == "i3" else f"Film {item[1:]}"] for item in ITEMS if item != "i7")
    data = prepare("interactions", place / "log.csv", place / "data")
    torch.manual_seed(0)
    by_id = models.create("neumf", dim=4, hidden=(4,), **model_sizes(data))
    for parameter in by_id.parameters():
        torch.nn.init.normal_(parameter)
    write_model(place / "neumf", by_id, {"name": "neumf", "dim": 4, "hidden": [4]}, data)
    sizes = {"dim": 8, "blocks": 1, "heads": 2, "length": LENGTH, "dropout": 0.0}
    by_history = SequenceModel(data.num_items, **sizes)
    torch.nn.init.normal_(by_history.item.weight)
    write_model(place / "sequence", by_history, {"name": "sequence", **sizes}, data)
    folders = {name: open_model(place / name) for name in ("sequence", "neumf")}
    return Films(place, log, folders, [read_names(place / "films.csv", folder) for folder in folders.values()])


@pytest.fixture(scope="session")
def explorer(films):
    return Explorer(films.folders, films.names)
