"""Helpers that tests of several modules share."""

import random

import torch

from songrank import models
from songrank.training.trained_model import model_sizes, write_model

SECTION = {"name": "context-aware", "dim": 4, "heads": 2, "blocks": 1, "feed_forward": 4}


def documents(seed, queries=12):
    """Rows of a table, those of one query apart from one another; some ages are missing."""
    rng = random.Random(seed)
    rows = []
    for query in range(queries):
        for _ in range(rng.randint(1, 6)):
            age = None if rng.random() < 0.2 else rng.gauss(0, 3)
            rows.append(
                {
                    "qid": 7 * query,
                    "label": rng.randint(0, 2),
                    "price": rng.random(),
                    "clicks": rng.random(),
                    "age": age,
                }
            )
    rng.shuffle(rows)
    return rows


def write(dataset, place):
    torch.manual_seed(0)
    write_model(place, models.create(**SECTION, **model_sizes(dataset)), SECTION, dataset)
    return place
