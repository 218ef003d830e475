"""Rules for combinations of optimiser, loss, gradient clipping and weight decay."""

from collections.abc import Iterator
from typing import Any

from songrank.losses.base import Traits
from songrank.training.optim.registry import OPTIMISERS


def stage_conflicts(
    optimiser: str,
    loss: str,
    traits: Traits,
    points: int,
    *,
    clip: float | None = None,
    item_decay_power: float = 0.0,
    correction: float | None = None,
    at_once: int | None = None,
) -> Iterator[tuple[str, Any, str]]:
    """The conflicts in a stage: key, value, and the expected value.

    >>> next(stage_conflicts("lazy-adam", "softmax", Traits(), 0, clip=1.0))
    ('clip', 1.0, 'none with lazy-adam, which does not compute the full gradient')
    """
    whole = OPTIMISERS[optimiser].whole_gradient
    able = " or ".join(name for name, kind in OPTIMISERS.items() if kind.whole_gradient)
    partial = f"with {optimiser}, which does not compute the full gradient"
    two = traits.previous_point
    rules = (
        (not whole and clip is not None, "clip", clip, f"none {partial}"),
        (not whole and item_decay_power, "item_decay_power", item_decay_power, f"0 {partial}"),
        (not whole and at_once is not None, "at_once", at_once, f"none {partial}"),
        (correction is not None and points != 2, "correction", correction, "none unless the loss uses two points"),
        (two and not whole, "optimiser", optimiser, f"{able} with {loss}"),
        (two and item_decay_power, "item_decay_power", item_decay_power, f"0 with {loss}"),
        (two and at_once and traits.whole_batch, "at_once", at_once, f"none with {loss}, which needs the whole batch"),
        (two and clip is not None and points == 2, "clip", clip, "none with a loss that uses two points"),
    )
    return ((key, value, expected) for broken, key, value, expected in rules if broken)
