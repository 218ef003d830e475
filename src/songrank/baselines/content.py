"""Baselines for cold items, which read features: predicted popularity, and similarity to the user's items."""

from collections.abc import Callable

import torch
from torch import Tensor

from songrank.core.csr import segment_rows
from songrank.core.feature_rows import FeatureRows
from songrank.data import CatalogueSplit
from songrank.functional.feature_map import FeatureMap

Scorer = Callable[[Tensor], Tensor]


def feature_popularity(train: CatalogueSplit, rows: FeatureRows) -> Scorer:
    """The same ranking for all users: log(1 + training users) of an item, predicted from its features.

    By ridge regression on the items with training pairs, :class:`~songrank.functional.feature_map.FeatureMap`.

    >>> from songrank.core.csr import CSR
    >>> train = CatalogueSplit("train", 3, CSR.from_lengths([1, 1], item=[0, 0], label=[1.0, 1.0]))
    >>> trained = torch.tensor([True, True, False])
    >>> entries = torch.tensor([1, 1, 1]), torch.tensor([1, 0, 1]), torch.ones(3)
    >>> rows = FeatureRows.of(torch.zeros(3, 0), *entries, width=2, trained=trained)
    >>> scores = feature_popularity(train, rows)(torch.tensor([0]))[0]
    >>> bool(scores[2] > scores[1])
    True
    """
    target = torch.bincount(train.item.long(), minlength=train.num_items).float().log1p()
    scores = FeatureMap.fit(rows, target.unsqueeze(1)).values(rows).squeeze(1)
    return lambda query: scores.expand(query.shape[0], -1)


def content(train: CatalogueSplit, rows: FeatureRows) -> Scorer:
    """The cosine of an item's categories and words, weighted by tf-idf, with the sum over the user's training items.

    >>> from songrank.core.csr import CSR
    >>> train = CatalogueSplit("train", 3, CSR.from_lengths([1, 1], item=[0, 1], label=[1.0, 1.0]))
    >>> entries = torch.tensor([1, 1, 1]), torch.tensor([1, 0, 1]), torch.ones(3)
    >>> rows = FeatureRows.of(torch.zeros(3, 0), *entries, width=2)
    >>> content(train, rows)(torch.tensor([0, 1])).gt(0).tolist()
    [[True, False, True], [False, True, False]]
    """
    items = torch.bincount(rows.index, minlength=rows.width)
    weight = rows.value * ((len(rows) + 1) / (items[rows.index] + 1)).log().add(1)
    lengths = torch.zeros(len(rows)).index_add_(0, segment_rows(rows.offsets.diff()), weight.square()).sqrt()
    inverse = torch.where(lengths > 0, 1 / lengths.clamp_min(1e-12), 0.0).unsqueeze(1)
    matrix = _Matrix(rows, weight)

    def scores(query: Tensor) -> Tensor:
        own, at = train.pairs.entries(query)
        taken = torch.zeros(train.num_items, query.shape[0])
        taken[train.item[at].long(), own] = 1.0
        return (matrix.times(matrix.across(taken * inverse)) * inverse).T

    return scores


class _Matrix:
    """The sparse features X [N, W], with these weights."""

    def __init__(self, rows: FeatureRows, weight: Tensor) -> None:
        self.rows, self.weight = rows, weight
        self.row = segment_rows(rows.offsets.diff())

    def times(self, right: Tensor) -> Tensor:
        """X R [N, K] for R [W, K]."""
        found = right.new_zeros(len(self.rows), right.shape[1])
        return found.index_add_(0, self.row, self.weight.unsqueeze(1) * right[self.rows.index])

    def across(self, right: Tensor) -> Tensor:
        """Xᵀ R [W, K] for R [N, K]."""
        found = right.new_zeros(self.rows.width, right.shape[1])
        return found.index_add_(0, self.rows.index, self.weight.unsqueeze(1) * right[self.row])
