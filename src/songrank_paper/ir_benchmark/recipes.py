"""The recipe of a set and a backbone of the benchmark, shared by all losses except for their settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from songrank_paper.methods import Setting
from songrank_paper.set_recipes import plain_recipe

BACKBONES: dict[str, dict[str, Any]] = {
    "mf": {"name": "matrix-factorisation"},
    "lightgcn": {"name": "lightgcn", "layers": 2},
}
"""Models by short name; both have 64 dimensions and cosine scores."""
METRICS = ("ndcg@20", "recall@20")
QUICK_EPOCHS = 8
_LENGTHS = {"ir-health": (100, 2, 5)}
_LENGTH = (60, 3, 4)
"""Epochs of all stages together, validation every N of them, and patience; small sets have few steps per epoch."""
_BATCH = {"ir-electronic": (512, 20), "ir-gowalla": (1024, 30)}
_SMALL_BATCH = (256, 10)
_IRRELEVANT = 1000
_RATE = 1e-2
_WARM_UP_TEMPERATURE = 0.2


class BenchmarkRecipe:
    """The recipe of one set and one backbone.

    Args:
        name: name of the set.
        backbone: a name of ``BACKBONES``.
        quick: whether to use a small model and few epochs.
        changes: last changes of the recipe, in the notation of ``songrank train``.
    """

    def __init__(self, name: str, backbone: str, *, quick: bool = False, changes: Sequence[str] = ()) -> None:
        self.name, self.quick, self.changes = name, quick, tuple(changes)
        epochs, every, patience = _LENGTHS.get(name, _LENGTH)
        self.epochs = QUICK_EPOCHS if quick else epochs
        queries, relevant = _BATCH.get(name, _SMALL_BATCH)
        batch = {"queries": queries, "relevant": relevant, "irrelevant": _IRRELEVANT}
        if quick:
            batch = {"queries": 64, "relevant": 5, "irrelevant": 100}
        self.base: dict[str, Any] = {
            "data": "",
            "model": {**BACKBONES[backbone], "dim": 16 if quick else 64, "scoring": "cosine"},
            "batch": batch,
            "warm_up": {"epochs": 0, "learning_rate": _RATE, "loss": {"name": "listwise-ce", "gamma": 0.3}},
            "fine_tuning": {"epochs": self.epochs, "learning_rate": _RATE, "reset_head": False},
            "validation": {"metric": METRICS[0], "every": every, "patience": patience},
            "evaluation": {"metrics": list(METRICS)},
        }

    def fine_tuning(self, setting: Setting, seed: int, *changes: str) -> dict[str, Any]:
        """The recipe of a run with a setting as plain values, with a warm-up for the squared hinge."""
        recipe = self._resolved(setting.changes)
        warm = self.epochs // 4 if recipe["loss"].get("surrogate") == "squared_hinge" else 0
        temperature = _WARM_UP_TEMPERATURE / recipe["model"]["temperature"]
        stages = (
            f"warm_up.epochs={warm}",
            f"warm_up.loss.temperature={temperature}",
            f"warm_up.learning_rate={_RATE * setting.rate}",
            f"fine_tuning.epochs={self.epochs - warm}",
            f"fine_tuning.learning_rate={_RATE * setting.rate}",
        )
        return {**self._resolved((*setting.changes, *stages, *self.changes, *changes)), "seed": seed}

    def remarks(self) -> list[str]:
        """Remarks on the training on this set."""
        batch, model = self.base["batch"], self.base["model"]
        return [
            f"{self.name}: {model['name']}, {model['dim']} dimensions, cosine scores; Adam; batches of "
            f"{batch['queries']:,} users with {batch['relevant']} relevant and {batch['irrelevant']:,} irrelevant "
            f"items; at most {self.epochs} epochs" + (", reduced for a quick run." if self.quick else ".")
        ]

    def _resolved(self, changes: Sequence[str]) -> dict[str, Any]:
        return plain_recipe(self.base, changes, self.name)
