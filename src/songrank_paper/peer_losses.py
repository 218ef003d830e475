r"""Losses of TensorFlow Ranking where its definition differs from that of songrank.

==========  ==============================================================  ==================================
loss        TensorFlow Ranking (``tfr.keras.losses``)                       songrank
==========  ==============================================================  ==================================
ListNet     ``SoftmaxLoss``: cross-entropy with the target y_i / Σ_j y_j    ``listnet``: target softmax(y);
                                                                            ``softmax`` has the target y / Σ y
ListMLE     ``ListMLELoss``: −ln P(π | s), π sorted by label with ties in   ``listmle``: Breslow's rule for
            random order                                                    ties, mean over items
==========  ==============================================================  ==================================

Its SoftmaxLoss also multiplies the value of a list by Σ y; here every list has the same weight, as in other losses.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from songrank.core.hashing import random_uniform
from songrank.core.slate import Slate
from songrank.functional.lists import prepare, reduce_lists
from songrank.losses.base import RandomListLoss

LISTNET = "softmax"
"""Name of the loss with the definition of ListNet in TensorFlow Ranking."""


def random_ties_listmle_loss(
    scores: Tensor, labels: Tensor, *, order: Tensor, mask: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    r"""−ln P(π | s) = −Σ_i [ s_π(i) − ln Σ_{j ≥ i} e^{s_π(j)} ], with π sorted by label; of ties, by ``order``.

    Args:
        scores: [..., L].
        labels: [..., L].
        order: [..., L], numbers in (0, 1); of two items with equal labels, the one with the smaller number is first.
        mask: [..., L], False for padding.
        reduction: as in :mod:`songrank.functional`.

    >>> order = torch.tensor([[0.5, 0.5]])
    >>> random_ties_listmle_loss(torch.tensor([[0.6, 0.8]]), torch.tensor([[1.0, 0.0]]), order=order)
    tensor(0.7981)
    """
    scores, labels, mask = prepare(scores, labels, mask)
    first = order.argsort(dim=-1)
    keys = torch.where(mask, labels, -torch.inf).gather(-1, first)
    place = first.gather(-1, keys.argsort(dim=-1, descending=True, stable=True))
    present = mask.gather(-1, place)
    value = torch.where(present, scores.gather(-1, place), torch.finfo(scores.dtype).min / 2)
    rest = value.flip(-1).logcumsumexp(-1).flip(-1)
    return reduce_lists(torch.where(present, rest - value, 0.0).sum(-1), mask, reduction)


class RandomTiesListMLE(RandomListLoss):
    """ListMLE of TensorFlow Ranking: the order of items with equal labels is drawn in each step.

    The order depends only on (``seed``, step, query, item), not on batch or device.

    >>> slate = Slate.from_batch(torch.tensor([[1.0, 0.0]]), query=torch.tensor([0]))
    >>> RandomTiesListMLE()(torch.tensor([[0.6, 0.8]]), slate)
    tensor(0.7981)
    """

    formula = staticmethod(random_ties_listmle_loss)

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)

    def _arguments(self, slate: Slate) -> dict[str, Any]:
        return {"order": random_uniform(self._bits_of_queries(slate), slate.item.expand(slate.label.shape))}
