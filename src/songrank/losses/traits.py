"""What a loss declares about itself, so that no other room needs to know a loss by its name or its class."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Traits:
    """The declared properties of a loss class.

    Args:
        memory: keeps one number per pair or per query between steps (a ``MemoryLoss``).
        gains: is a function of the gains of the labels, so that a document's weight can multiply its gain.
        cost: of one list of L items, P of them relevant. ``"O(L²)"`` compares each item with each.
        objective: what ``objective()`` reports, for the caption of a curve.
        unit: of that value: ``"NDCG"``, ``"nats"``, or ``""`` for none.
        compiles: ``torch.compile`` accepts it.
        previous_point: ``forward`` takes the scores at the previous weights, ``before=``, or their change, ``change=``;
            ``loss.points`` says which, and the optimiser is of the variance-reduced family (``Storm``).
        whole_batch: a step takes all rows of a batch at once, never some of them at a time.
        plain: the name of the loss whose settings in a recipe hold for this one too, where it has none of its own.
        search: options that are usually worth a search, with the kind of range that is searched: ``"weight"`` up to 1,
            ``"scale"`` by factors around the present value, ``"offset"`` or ``"cutoff"`` a list of choices.

    >>> from songrank.losses.registry import LOSSES
    >>> LOSSES["k-song"].traits.cost, LOSSES["faster-k-song"].traits.plain, LOSSES["bce"].traits.gains
    ('O(P·L)', 'k-song', False)

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
