"""PiRank: NDCG with a soft sort."""

from torch import Tensor

from songrank.core.checks import check_int, check_number
from songrank.core.slate import Slate
from songrank.functional import pirank_loss
from songrank.losses.base import ListLoss


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

    def __init__(self, temperature: float = 1.0, k: int | None = None, *, validate: bool = False) -> None:
        super().__init__(validate=validate)
        self.temperature = check_number("temperature", temperature, 0.0, low_open=True)
        self.k = None if k is None else check_int("k", k)

    def per_list(self, scores: Tensor, slate: Slate) -> Tensor:
        """[B]: the loss of each list."""
        mask = slate.mask.expand(slate.label.shape)
        return pirank_loss(
            scores, slate.label, mask=mask, reduction="none", temperature=self.temperature, k=self.k, gain=slate.gain
        )
