"""RankNet: cross-entropy over pairs of items."""

from songrank.core.options import checked
from songrank.functional import ranknet_loss
from songrank.losses.base import ListLoss, Positive
from songrank.losses.registry import register
from songrank.losses.traits import Traits


@register("ranknet")
class RankNet(ListLoss):
    """:func:`songrank.functional.ranknet_loss` of a slate's labels, through the common call.

    Args:
        sigma: steepness of the logistic.
        validate: check the values of every slate.

    >>> import torch
    >>> from songrank import RankNet, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> RankNet()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.2512)

    """

    traits = Traits(cost="O(P·L)", search={"sigma": "scale"})
    formula = staticmethod(ranknet_loss)
    by_column = True

    @checked
    def __init__(self, sigma: Positive = 1.0, *, validate: bool = False) -> None:
        super().__init__(validate=validate, sigma=sigma)
