"""Declared properties of a loss, so that other modules never test for its name or class."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Traits:
    """The declared properties of a loss class.

    Args:
        memory: it is a ``MemoryLoss`` with one float per pair or query between steps.
        gains: it depends on gains, so document weights can multiply them.
        cost: cost per list of L items, P of them relevant.
        objective: description of ``objective()``, the caption of a curve.
        unit: unit of that value: ``"NDCG"``, ``"nats"``, or ``""`` for none.
        compiles: ``torch.compile`` supports it.
        previous_point: ``forward`` takes the scores at the previous weights, ``before=`` (``loss.points`` is 2), or
            their change, ``change=`` (1); the optimiser is variance-reduced (``Storm``).
        whole_batch: a step needs all rows of a batch at once.
        plain: name of the loss whose recipe settings are the defaults of this one.
        search: options to tune and their range: ``"weight"`` up to 1, ``"scale"`` by factors around the current value,
            ``"offset"`` or ``"cutoff"`` a list of choices.

    >>> from songrank import KSONG
    >>> KSONG.traits.cost
    'O(P·L)'
    """

    memory: bool = False
    gains: bool = False
    cost: Literal["O(L)", "O(P·L)", "O(L²)"] = "O(L)"
    objective: str = "the loss itself"
    unit: str = ""
    compiles: bool = True
    previous_point: bool = False
    whole_batch: bool = False
    plain: str | None = None
    search: Mapping[str, Literal["weight", "scale", "offset", "cutoff"]] = field(default_factory=dict)
