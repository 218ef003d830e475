"""Popularity: the same ranking for all users."""

from collections.abc import Callable

import torch
from torch import Tensor

from songrank.baselines.base import Baseline
from songrank.core.csr import CSR
from songrank.data import CatalogueSplit


class Popularity(Baseline):
    """The score of an item is the number of its interactions in training, for every user.

    >>> train = CatalogueSplit("train", 3, CSR.from_lengths([1, 2], item=[1, 1, 2]))
    >>> Popularity(train).fit()(None, torch.tensor([0, 1]))
    tensor([[0., 2., 1.],
            [0., 2., 1.]])
    """

    grid: tuple[dict[str, float], ...] = ({},)

    def __init__(self, train: CatalogueSplit) -> None:
        self._counts = torch.bincount(train.item, minlength=train.num_items).float()

    def fit(self) -> Callable[[CSR | None, Tensor], Tensor]:
        """A function from histories, which are ignored, and users [b] to scores [b, num_items]."""
        return lambda rows, query: self._counts.expand(query.shape[0], -1)
