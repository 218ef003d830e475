"""The smooth ranks ĝ of a slate's relevant items and their gradient in closed form; shared by SONG and K-SONG."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.functional.strata import rival_weights
from songrank.functional.surrogates import Surrogate
from songrank.losses.base import list_counts, own_weights
from songrank.slate import Slate

_IN_CACHE = 2**18
"""Comparisons at a time on a CPU: what they make then stays in its cache (three times as fast at 256 × 10 × 310)."""
_IN_MEMORY = 2**28
"""Comparisons to hold at most: above that the slopes are computed a second time instead of kept."""


@dataclass(frozen=True)
class RankTerms:
    """ĝ [B, P], and what its gradient needs; the comparisons [B, P, L] are made a few rows at a time."""

    estimate: Tensor
    scores: Tensor
    relevant: Tensor
    weight: Tensor
    column: Tensor
    surrogate: Surrogate
    parts: list[slice]
    slopes: list[Tensor] | None

    @classmethod
    def of(cls, scores: Tensor, slate: Slate, surrogate: Surrogate, estimator: str) -> RankTerms:
        """Compare each relevant item with every column, weighed as the slate stands for its list."""
        given = own_weights(slate, scores.dtype)
        counts = list_counts(slate, scores.dtype)
        weight, own = rival_weights(slate.label, slate.mask, *counts, weight=given, estimator=estimator)
        relevant = scores.gather(1, slate.column)
        parts = _parts(scores, slate.column.shape[1])
        keep = scores.numel() * slate.column.shape[1] <= _IN_MEMORY
        sums: list[Tensor] = []
        slopes: list[Tensor] = []
        for part in parts:
            value, slope = surrogate.value_and_slope_(scores[part].unsqueeze(1) - relevant[part].unsqueeze(2))
            sums.append(torch.bmm(value, weight[part].unsqueeze(2)).squeeze(2))
            if keep:
                slopes.append(slope)
        estimate = _join(sums) + own * surrogate.at_zero
        return cls(estimate, scores, relevant, weight, slate.column, surrogate, parts, slopes if keep else None)

    def gradient(self, coefficient: Tensor) -> Tensor:
        """[B, L]: Σ_i coefficient_i · ∇ĝ_i with respect to the scores."""
        pushes: list[Tensor] = []
        pulls: list[Tensor] = []
        for at, part in enumerate(self.parts):
            slope = self._slope(at)
            pushes.append(torch.bmm(coefficient[part].unsqueeze(1), slope).squeeze(1))
            pulls.append(torch.bmm(slope, self.weight[part].unsqueeze(2)).squeeze(2))
        return (_join(pushes) * self.weight).scatter_add(1, self.column, -_join(pulls) * coefficient)

    def _slope(self, at: int) -> Tensor:
        if self.slopes is not None:
            return self.slopes[at]
        part = self.parts[at]
        return self.surrogate.value_and_slope_(self.scores[part].unsqueeze(1) - self.relevant[part].unsqueeze(2))[1]


def _parts(scores: Tensor, pairs: int) -> list[slice]:
    """Rows to take at a time: all at once for a compiler, which makes no such tensor anyway."""
    rows, columns = scores.shape
    if torch.compiler.is_compiling():
        return [slice(0, rows)]
    budget = _IN_CACHE if scores.device.type == "cpu" else _IN_MEMORY // 4
    step = max(budget // max(pairs * columns, 1), 1)
    return [slice(first, min(first + step, rows)) for first in range(0, rows, step)] or [slice(0, 0)]


def _join(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
