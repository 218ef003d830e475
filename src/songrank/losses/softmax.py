"""Softmax cross-entropy of a list against its normalised labels."""

from songrank.functional import softmax_loss
from songrank.losses.base import ListLoss
from songrank.losses.registry import register


@register("softmax")
class SoftmaxCE(ListLoss):
    """:func:`songrank.functional.softmax_loss` of a slate's labels, through the common call.

    >>> import torch
    >>> from songrank import SoftmaxCE, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> SoftmaxCE()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.7409)
    """

    formula = staticmethod(softmax_loss)
    by_column = True
