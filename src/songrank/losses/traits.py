"""What a loss declares about itself, so that no other room refers to a loss by name or class."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Traits:
    """The declared properties of a loss class.

    Args:
        memory: a ``MemoryLoss``: keeps a number per pair or per query between steps.
        gains: a function of the labels' gains, so a document's weight can multiply its gain.
        cost: of one list of L items, P of them relevant.
        objective: what ``objective()`` reports, for the caption of a curve.
        unit: of that value: ``"NDCG"``, ``"nats"``, or ``""`` for none.
        compiles: ``torch.compile`` accepts it.
        previous_point: ``forward`` takes the scores at the previous weights, ``before=``, or their change, ``change=``
            (``loss.points`` says which); the optimiser is variance-reduced (``Storm``).
        whole_batch: a step needs all rows of a batch at once.
        plain: the loss whose settings in a recipe are the defaults of this one.
        search: options worth a search and their range: ``"weight"`` up to 1, ``"scale"`` by factors around the
            present value, ``"offset"`` or ``"cutoff"`` a list of choices.

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
