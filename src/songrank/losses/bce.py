"""Pointwise binary cross-entropy."""

from songrank.functional import bce_loss
from songrank.losses.base import ListLoss
from songrank.losses.registry import register


@register("bce")
class PointwiseBCE(ListLoss):
    """:func:`songrank.functional.bce_loss` of a slate's labels, through the common call.

    >>> import torch
    >>> from songrank import PointwiseBCE, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> PointwiseBCE()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.0444)
    """

    formula = staticmethod(bce_loss)
