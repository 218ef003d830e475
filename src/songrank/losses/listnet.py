"""ListNet: cross-entropy between the top-one probabilities of labels and scores."""

from songrank.functional import listnet_loss
from songrank.losses.base import ListLoss
from songrank.losses.registry import register


@register("listnet")
class ListNet(ListLoss):
    """:func:`songrank.functional.listnet_loss` of a slate's labels, through the common call.

    >>> import torch
    >>> from songrank import ListNet, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> ListNet()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.5623)
    """

    formula = staticmethod(listnet_loss)
