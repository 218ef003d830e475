"""A linear map from features to learned vectors, for items and users without training data."""

from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.core.csr import segment_rows
from songrank.core.feature_rows import FeatureRows

_RIDGES = (1.0, 10.0, 100.0, 1000.0)
_FOLDS = 5  # every fifth row chooses the regularisation
_STEPS = 200
_TOLERANCE = 1e-6  # of the length of the residual


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """vector = mean + Wᵀ x, with x the sparse features of a row, followed by the dense ones.

    Args:
        weight: W [features, K].
        mean: [K].
    """

    weight: Tensor
    mean: Tensor

    @classmethod
    def fit(cls, rows: FeatureRows, vectors: Tensor) -> "FeatureMap":
        """Ridge regression of ``vectors`` [N, K] on the features of the rows with training data.

        W minimises Σ_n |vector_n − mean − Wᵀ x_n|² + λ |W|², with the mean of the vectors; λ is 1, 10, 100 or 1000,
        the one with the least squared error on every fifth row, when fitted to the others.

        >>> none = torch.zeros(3, dtype=torch.int64), torch.zeros(0), torch.zeros(0)
        >>> rows = FeatureRows.of(torch.tensor([[1.0], [-1.0], [3.0]]), *none, width=0)
        >>> FeatureMap.fit(rows, torch.tensor([[2.0], [-2.0], [6.0]])).values(rows).shape
        torch.Size([3, 1])
        """
        known = rows.trained.nonzero().squeeze(1)
        own, target = _Matrix(rows.take(known)), vectors[known].double()
        place = torch.arange(known.shape[0])
        held, kept = place[place % _FOLDS == 0], place[place % _FOLDS != 0]
        ridge = _RIDGES[1]
        if kept.numel():
            errors = []
            for one in _RIDGES:
                found = _solved(own, target, kept, one)
                errors.append(float((found.mean + own.times(found.weight) - target)[held].square().sum()))
            ridge = _RIDGES[errors.index(min(errors))]
        found = _solved(own, target, place, ridge)
        return cls(found.weight.float(), found.mean.float())

    def values(self, rows: FeatureRows) -> Tensor:
        """[N, K]: the vectors of these rows."""
        return (self.mean.double() + _Matrix(rows).times(self.weight.double())).float()


class _Matrix:
    """Sparse and dense features X, float64 [N, W + F]."""

    def __init__(self, rows: FeatureRows) -> None:
        self.row, self.index = segment_rows(rows.offsets.diff()), rows.index
        self.value, self.dense = rows.value.double().unsqueeze(1), rows.dense.double()
        self.width, self.size = rows.width, rows.width + rows.dense.shape[1]

    def times(self, right: Tensor) -> Tensor:
        """X R [N, K]."""
        found = self.dense @ right[self.width :]
        return found.index_add_(0, self.row, self.value * right[self.index])

    def across(self, right: Tensor) -> Tensor:
        """Xᵀ R [W + F, K]."""
        sparse = right.new_zeros(self.width, right.shape[1])
        sparse.index_add_(0, self.index, self.value * right[self.row])
        return torch.cat([sparse, self.dense.T @ right])


def _solved(matrix: _Matrix, target: Tensor, kept: Tensor, ridge: float) -> FeatureMap:
    """The map of the rows ``kept``, by conjugate gradients for all columns at once."""
    mean = target[kept].mean(0)
    chosen = target.new_zeros(target.shape[0], 1)
    chosen[kept] = 1.0
    weight = target.new_zeros(matrix.size, target.shape[1])
    rest = matrix.across((target - mean) * chosen)
    step, size = rest.clone(), rest.square().sum(0)
    least = _TOLERANCE**2 * size
    for _ in range(_STEPS):
        if bool((size <= least).all()):
            break
        moved = matrix.across(matrix.times(step) * chosen) + ridge * step
        along = (step * moved).sum(0)
        rate = torch.where(along > 0, size / along.clamp_min(1e-300), 0.0)
        weight, rest = weight + rate * step, rest - rate * moved
        size, before = rest.square().sum(0), size
        step = rest + torch.where(before > 0, size / before.clamp_min(1e-300), 0.0) * step
    return FeatureMap(weight, mean)
