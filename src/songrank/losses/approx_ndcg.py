"""ApproxNDCG: NDCG with a smooth rank."""

from songrank.core.options import checked
from songrank.functional import approx_ndcg_loss
from songrank.losses.base import ListLoss, Positive
from songrank.losses.registry import register
from songrank.losses.traits import Traits


@register("approx-ndcg")
class ApproxNDCG(ListLoss):
    """:func:`songrank.functional.approx_ndcg_loss` of a slate's labels, through the common call.

    Args:
        temperature: T of the smooth rank.
        validate: check the values of every slate.

    >>> import torch
    >>> from songrank import ApproxNDCG, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> ApproxNDCG()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(-0.6699)

    """

    traits = Traits(gains=True, cost="O(P·L)", search={"temperature": "scale"})
    formula = staticmethod(approx_ndcg_loss)
    by_column = True

    @checked
    def __init__(self, temperature: Positive = 1.0, *, validate: bool = False) -> None:
        super().__init__(validate=validate, temperature=temperature)
