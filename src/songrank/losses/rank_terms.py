"""The smooth ranks ĝ of a slate's relevant items and their gradient in closed form; shared by SONG and K-SONG."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.functional.strata import rival_weights
from songrank.functional.surrogates import Surrogate
from songrank.losses.base import list_counts, own_weights
from songrank.slate import Slate


@dataclass(frozen=True)
class RankTerms:
    """ĝ [B, P], and what its gradient needs: the slopes ℓ′(h_j − h_i) [B, P, L] and the column weights [B, L]."""

    estimate: Tensor
    slope: Tensor
    weight: Tensor
    column: Tensor

    @classmethod
    def of(cls, scores: Tensor, slate: Slate, surrogate: Surrogate, estimator: str) -> RankTerms:
        """Compare each relevant item with every column, weighed as the slate stands for its list."""
        given = own_weights(slate, scores.dtype)
        counts = list_counts(slate, scores.dtype)
        weight, own = rival_weights(slate.label, slate.mask, *counts, weight=given, estimator=estimator)
        relevant = scores.gather(1, slate.column)
        value, slope = surrogate.value_and_slope(scores.unsqueeze(1) - relevant.unsqueeze(2))
        estimate = torch.bmm(value, weight.unsqueeze(2)).squeeze(2) + own * surrogate.at_zero
        return cls(estimate, slope, weight, slate.column)

    def gradient(self, coefficient: Tensor) -> Tensor:
        """[B, L]: Σ_i coefficient_i · ∇ĝ_i with respect to the scores."""
        push = torch.bmm(coefficient.unsqueeze(1), self.slope).squeeze(1) * self.weight
        pull = torch.bmm(self.slope, self.weight.unsqueeze(2)).squeeze(2) * coefficient
        return push.scatter_add(1, self.column, -pull)
