"""Softmax cross-entropy of a list against its normalised labels."""

from torch import Tensor

from songrank.functional import softmax_loss
from songrank.losses.base import ListLoss
from songrank.slate import Slate


class SoftmaxCE(ListLoss):
    """:func:`songrank.functional.softmax_loss` of a slate's labels, through the common call."""

    def per_list(self, scores: Tensor, slate: Slate) -> Tensor:
        """[B]: the loss of each list."""
        mask = slate.mask.expand(slate.label.shape)
        return softmax_loss(scores, slate.label, mask=mask, reduction="none")
