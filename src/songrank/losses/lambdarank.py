"""LambdaRank: RankNet with each pair weighed by what swapping it does to NDCG."""

from torch import Tensor

from songrank.core.checks import check_int, check_number
from songrank.core.slate import Slate
from songrank.functional import lambdarank_loss
from songrank.losses.base import ListLoss


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

    def __init__(self, sigma: float = 1.0, k: int | None = None, *, validate: bool = False) -> None:
        super().__init__(validate=validate)
        self.sigma = check_number("sigma", sigma, 0.0, low_open=True)
        self.k = None if k is None else check_int("k", k)

    def per_list(self, scores: Tensor, slate: Slate) -> Tensor:
        """[B]: the loss of each list."""
        mask = slate.mask.expand(slate.label.shape)
        column = slate.relevant_columns
        return lambdarank_loss(
            scores,
            slate.label,
            mask=mask,
            reduction="none",
            sigma=self.sigma,
            k=self.k,
            gain=slate.gain,
            column=column,
        )
