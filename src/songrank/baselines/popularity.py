"""Popularity: the same ranking for all."""

from collections.abc import Callable

import torch
from torch import Tensor

from songrank.core.csr import CSR
from songrank.data import CatalogueSplit


class Popularity:
    """An item's score is the number of its interactions in training, whoever asks.

    >>> train = CatalogueSplit("train", 3, CSR.from_lengths([1, 2], item=[1, 1, 2]))
    >>> Popularity(train).fit()(None, torch.tensor([0, 1]))
    tensor([[0., 2., 1.],
            [0., 2., 1.]])
    """

    grid: tuple[dict[str, float], ...] = ({},)
    deterministic = True

    def __init__(self, train: CatalogueSplit) -> None:
        self._counts = torch.bincount(train.item, minlength=train.num_items).float()

    def fit(self) -> Callable[[CSR | None, Tensor], Tensor]:
        """The function of histories, which do not matter here, and queries [b] that gives scores [b, num_items]."""
        return lambda rows, query: self._counts.expand(query.shape[0], -1)
