"""ListMLE: Plackett–Luce likelihood of the order that the labels state."""

from songrank.functional import listmle_loss
from songrank.losses.base import ListLoss
from songrank.losses.registry import register


@register("listmle")
class ListMLE(ListLoss):
    """:func:`songrank.functional.listmle_loss` of a slate's labels, through the common call.

    >>> import torch
    >>> from songrank import ListMLE, Slate
    >>> slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0]]), query=torch.tensor([0]))
    >>> ListMLE()(torch.tensor([[1.0, 2.0, 0.0]]), slate)
    tensor(1.1782)
    """

    formula = staticmethod(listmle_loss)
