"""Softmax cross-entropy of a list against its normalised labels."""

from torch import Tensor

from songrank.core.slate import Slate
from songrank.functional import softmax_loss
from songrank.losses.base import ListLoss


class SoftmaxCE(ListLoss):
    """:func:`songrank.functional.softmax_loss` of a slate's labels, through the common call.

    >>> import torch
    >>> from songrank import SoftmaxCE, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> SoftmaxCE()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.7409)
    """

    def per_list(self, scores: Tensor, slate: Slate) -> Tensor:
        """[B]: the loss of each list."""
        mask = None if slate.whole else slate.mask.expand(slate.label.shape)
        return softmax_loss(scores, slate.label, mask=mask, column=slate.relevant_columns, reduction="none")
