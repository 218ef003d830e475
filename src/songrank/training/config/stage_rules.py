"""Which optimiser, loss, clipping and weight decay go together."""

from collections.abc import Iterator
from typing import Any

from songrank.losses.traits import Traits
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
    """The conflicts in a stage: key, value, and what is expected.

    >>> next(stage_conflicts("lazy-adam", "softmax", Traits(), 0, clip=1.0))
    ('clip', 1.0, 'none with lazy-adam, which never has the whole gradient')
    """
    whole_gradient = OPTIMISERS[optimiser].whole_gradient
    if not whole_gradient:
        with_it = f"with {optimiser}, which never has the whole gradient"
        if clip is not None:
            yield "clip", clip, f"none {with_it}"
        if item_decay_power:
            yield "item_decay_power", item_decay_power, f"0 {with_it}"
        if at_once is not None:
            yield "at_once", at_once, f"none {with_it}"
    if correction is not None and points != 2:
        yield "correction", correction, "none but with a loss of two points"
    if not traits.previous_point:
        return
    if not whole_gradient:
        able = " or ".join(name for name, kind in OPTIMISERS.items() if kind.whole_gradient)
        yield "optimiser", optimiser, f"{able} with {loss}"
    if item_decay_power:
        yield "item_decay_power", item_decay_power, f"0 with {loss}"
    if at_once is not None and traits.whole_batch:
        yield "at_once", at_once, f"none with {loss}, which takes a batch at once"
    if clip is not None and points == 2:
        yield "clip", clip, "none with a loss of two points"
