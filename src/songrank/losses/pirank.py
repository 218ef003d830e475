"""PiRank: NDCG with a soft sort."""

from songrank.core.options import checked
from songrank.functional import pirank_loss
from songrank.losses.base import Count, ListLoss, Positive
from songrank.losses.registry import register
from songrank.losses.traits import Traits


@register("pirank")
class PiRank(ListLoss):
    """:func:`songrank.functional.pirank_loss` of a slate's labels, through the common call.

    Args:
        temperature: τ of the soft sort.
        k: positions that count; all if None.
        validate: check the values of every slate.

    >>> import torch
    >>> from songrank import PiRank, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> PiRank()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(-0.7690)

    """

    traits = Traits(gains=True, cost="O(L²)", search={"temperature": "scale"})
    formula = staticmethod(pirank_loss)

    @checked
    def __init__(self, temperature: Positive = 1.0, k: Count | None = None, *, validate: bool = False) -> None:
        super().__init__(validate=validate, k=k, temperature=temperature)
