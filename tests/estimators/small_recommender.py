"""A small Recommender, and clicks for it, for all tests of it."""

import numpy as np
import pandas as pd

from songrank.estimators import Recommender

SMALL = {"model.dim": 4, "model.hidden": [4], "batch.relevant": 4, "batch.irrelevant": 6, "warm_up.epochs": 1}
NAMES = {"user": "who", "item": "what", "label": "stars", "time": "when"}


def small(**more):
    return Recommender(**{"model": "neumf", "epochs": 2, "options": SMALL, "verbose": 0, "device": "cpu", **more})


def clicks(users=30, items=25, seed=0):
    """Each user meets some items of one half of the catalogue; ids are texts in no special order."""
    random = np.random.default_rng(seed)
    rows = [
        (f"user {(user * 7) % users}", f"item {item}", int(random.integers(1, 6)), time)
        for user in range(users)
        for time, item in enumerate(random.permutation(items)[: 6 + user % 5])
    ]
    return pd.DataFrame(rows, columns=["who", "what", "stars", "when"])
