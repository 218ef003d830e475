"""The models among which ``LabelRanker`` chooses by default, with schedules for the size of the data."""

import json
import math
from dataclasses import dataclass
from typing import Any

MOST_WEIGHTS = 2**27
"""Maximum number of weights of a linear model."""
FEW_ROWS = 1000
"""Below this number of rows, a validation part is too small for a choice, and the model is linear."""
REFIT_ROWS = 10_000
"""Up to this number of rows, the chosen model is trained again on all rows, validation included."""

_STEPS = {"warm_up": 300, "fine_tuning": 300}  # minimum number of steps


@dataclass(frozen=True)
class Candidate:
    """A model of the recipe ``labelling``.

    Args:
        name: name in messages.
        changes: changes of the recipe.
    """

    name: str
    changes: tuple[str, ...]


def label_candidates(rows: int, features: int, labels: int) -> list[Candidate]:
    """The candidates for a number of training rows, features and labels; the first one is preferred in a tie.

    >>> [candidate.name for candidate in label_candidates(rows=200, features=1000, labels=20)]
    ['linear model']
    >>> [candidate.name for candidate in label_candidates(rows=5000, features=1000, labels=20)]
    ['linear model', 'MLP']
    """
    found = []
    fits = features * labels <= MOST_WEIGHTS
    if fits:
        found.append(Candidate("linear model", _linear(rows, labels)))
    if rows >= FEW_ROWS or not fits:
        found.append(Candidate("MLP", _mlp(rows)))
    return found


def _linear(rows: int, labels: int) -> tuple[str, ...]:
    """One-vs-rest logistic regression, from 1,000 rows with the penalty ‖w‖²/2 per label, scikit-learn's default.

    The loss is a mean over rows and labels, so the weight decay is 1 / (rows · labels). It does not grow below 1,000
    rows: with fewer rows, scikit-learn's penalty is so strong that frequent labels win.
    """
    epochs = _epochs(rows, 400, least=8)
    return _changes(
        {
            "model": {"name": "label-mlp", "hidden": [], "dropout": 0.0, "zero_head": True},
            "loss": "bce",
            "batch.queries": _batch(rows),
            "warm_up.epochs": 0,
            "fine_tuning.epochs": epochs,
            "fine_tuning.learning_rate": 0.05,
            "fine_tuning.decay": _decay(epochs),
            "fine_tuning.weight_decay": 1 / (max(rows, FEW_ROWS) * labels),
            "validation.every": _every(epochs),
        }
    )


def _mlp(rows: int) -> tuple[str, ...]:
    changes: dict[str, Any] = {"batch.queries": _batch(rows)}
    for stage, least in (("warm_up", 6), ("fine_tuning", 8)):
        epochs = _epochs(rows, _STEPS[stage], least)
        if epochs > least:
            changes |= {f"{stage}.epochs": epochs, f"{stage}.decay": _decay(epochs), "validation.every": _every(epochs)}
    return _changes(changes)


def _epochs(rows: int, steps: int, least: int) -> int:
    return max(least, math.ceil(steps / math.ceil(rows / _batch(rows))))


def _batch(rows: int) -> int:
    """Rows per step: about 8 steps per epoch at least, since an epoch has costs of its own."""
    return min(64, max(4, rows // 8))


def _every(epochs: int) -> int:
    """Epochs between evaluations, at most 20 of which are in a stage."""
    return math.ceil(epochs / 20)


def _decay(epochs: int) -> dict[int, float]:
    """Learning rate factors that fall to 1/20 towards the end."""
    factors = ((0.4, 0.5), (0.6, 0.4), (0.75, 0.5), (0.9, 0.5))
    return {max(1, round(share * epochs)): factor for share, factor in factors}


def _changes(values: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{key}={json.dumps(value)}" for key, value in values.items())
