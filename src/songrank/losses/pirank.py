"""PiRank: NDCG with a soft sort."""

from torch import Tensor

from songrank._checks import check_int, check_number
from songrank.functional import pirank_loss
from songrank.losses.base import ListLoss
from songrank.slate import Slate


class PiRank(ListLoss):
    """:func:`songrank.functional.pirank_loss` of a slate's labels, through the common call.

    Args:
        temperature: τ of the soft sort.
        k: positions that count; all if None.
        validate: check the values of every slate.

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
