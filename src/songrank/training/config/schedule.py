"""Schedules that fit the data: batch size by the number of queries, numbers of epochs by a minimum of steps.

An epoch of a small data set has few steps: with 256 queries per step, 600 users are 3 steps. A schedule in epochs alone
would end before the model is trained, and select a checkpoint among the first steps.
"""

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from songrank.training.config.recipe import FineTuning, WarmUp

SMALLEST, LARGEST, STEPS = 16, 256, 16
"""Limits of the batch size ``auto``, and the number of steps per epoch that it should give."""


def batch_size(queries: int) -> int:
    """The largest power of two from 16 to 256 with at least 16 steps per epoch.

    >>> [batch_size(queries) for queries in (10, 255, 512, 943, 4096)]
    [16, 16, 32, 32, 256]
    """
    size = LARGEST
    while size > SMALLEST and math.ceil(queries / size) < STEPS:
        size //= 2
    return size


def epochs_of(epochs: int, min_steps: int, steps: int) -> int:
    """The number of epochs, each of this number of steps, that has at least ``min_steps`` steps; 0 stays 0.

    >>> epochs_of(20, 1000, steps=8), epochs_of(20, 1000, steps=100), epochs_of(0, 1000, steps=8)
    (125, 20, 0)
    """
    return max(epochs, math.ceil(min_steps / steps)) if epochs else 0


def stage_lengths(section: "WarmUp | FineTuning", steps: int) -> dict[str, Any]:
    """The values of a stage that count epochs, for epochs of this number of steps.

    With r times the epochs of the recipe, the learning rate decays at r times the epoch, and the decay s per epoch of
    an EMA is s^(1/r): the same in relation to the length of the stage.

    >>> from songrank.training.config.recipe import FineTuning
    >>> stage_lengths(FineTuning(epochs=10, min_steps=100, decay={5: 0.1}, ema_decay=0.81), steps=5)
    {'epochs': 20, 'decay': {10: 0.1}, 'ema_decay': 0.9}
    """
    epochs = epochs_of(section.epochs, section.min_steps, steps)
    if epochs == section.epochs:
        return {"epochs": epochs, "decay": section.decay, "ema_decay": section.ema_decay}
    ratio = epochs / section.epochs
    decay: dict[int, float] = {}
    for epoch, factor in section.decay.items():
        at = max(1, round(epoch * ratio))
        decay[at] = decay.get(at, 1.0) * factor
    return {"epochs": epochs, "decay": decay, "ema_decay": section.ema_decay and section.ema_decay ** (1 / ratio)}
