"""LambdaRank: RankNet with each pair weighed by what swapping it does to NDCG."""

from songrank.core.options import checked
from songrank.functional import lambdarank_loss
from songrank.losses.base import Count, ListLoss, Positive
from songrank.losses.registry import register
from songrank.losses.traits import Traits


@register("lambdarank")
class LambdaRank(ListLoss):
    """:func:`songrank.functional.lambdarank_loss` of a slate's labels, through the common call.

    Args:
        sigma: steepness of the logistic.
        k: positions that count; all if None.
        validate: check the values of every slate.

    >>> import torch
    >>> from songrank import LambdaRank, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> LambdaRank()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(0.7159)

    """

    traits = Traits(gains=True, cost="O(P·L)", search={"sigma": "scale"})
    formula = staticmethod(lambdarank_loss)
    by_column = True

    @checked
    def __init__(self, sigma: Positive = 1.0, k: Count | None = None, *, validate: bool = False) -> None:
        super().__init__(validate=validate, k=k, sigma=sigma)
