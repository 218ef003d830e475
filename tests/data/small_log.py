"""Helpers that tests of several modules share."""

import numpy as np


def log(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "user": rng.integers(0, 30, rows) * 3,
        "item": [f"i{x}" for x in rng.integers(0, 80, rows)],
        "rating": rng.integers(1, 6, rows),
        "time": rng.integers(0, 50, rows),
    }
