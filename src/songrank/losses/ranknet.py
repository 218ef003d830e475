"""RankNet: cross-entropy over pairs of items."""

from torch import Tensor

from songrank.core.checks import check_number
from songrank.core.slate import Slate
from songrank.functional import ranknet_loss
from songrank.losses.base import ListLoss


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

    def __init__(self, sigma: float = 1.0, *, validate: bool = False) -> None:
        super().__init__(validate=validate)
        self.sigma = check_number("sigma", sigma, 0.0, low_open=True)

    def per_list(self, scores: Tensor, slate: Slate) -> Tensor:
        """[B]: the loss of each list."""
        mask = slate.mask.expand(slate.label.shape)
        column = slate.relevant_columns
        return ranknet_loss(scores, slate.label, mask=mask, reduction="none", sigma=self.sigma, column=column)
