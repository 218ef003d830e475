"""ApproxNDCG: NDCG with a smooth rank."""

from torch import Tensor

from songrank.core.checks import check_number
from songrank.core.slate import Slate
from songrank.functional import approx_ndcg_loss
from songrank.losses.base import ListLoss


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

    def __init__(self, temperature: float = 1.0, *, validate: bool = False) -> None:
        super().__init__(validate=validate)
        self.temperature = check_number("temperature", temperature, 0.0, low_open=True)

    def per_list(self, scores: Tensor, slate: Slate) -> Tensor:
        """[B]: the loss of each list."""
        mask = slate.mask.expand(slate.label.shape)
        column = slate.relevant_columns
        return approx_ndcg_loss(
            scores,
            slate.label,
            mask=mask,
            reduction="none",
            temperature=self.temperature,
            gain=slate.gain,
            column=column,
        )
