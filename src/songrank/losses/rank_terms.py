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
_IN_MEMORY = 2**26
"""Comparisons at a time on a GPU; 256 MB in float32."""


@dataclass(frozen=True)
class RankTerms:
    """ĝ [B, P], and what its gradient needs; the comparisons [B, P, L] are made a few rows at a time.

    On a CPU they are made in two buffers, again for the gradient: fresh memory costs more than the arithmetic.
    Elsewhere the slopes are kept if one part holds them all. ``moved`` [B, P] is ĝ's derivative along a change of the
    scores, Σ_j w_j ℓ′(h_j − h_i)(dh_j − dh_i), where one was given.
    """

    estimate: Tensor
    scores: Tensor
    relevant: Tensor
    weight: Tensor
    column: Tensor
    surrogate: Surrogate
    parts: list[slice]
    buffers: tuple[Tensor, Tensor] | None
    slope: Tensor | None
    moved: Tensor | None = None

    @classmethod
    def of(
        cls, scores: Tensor, slate: Slate, surrogate: Surrogate, estimator: str, change: Tensor | None = None
    ) -> RankTerms:
        """Compare each relevant item with every column, weighed as the slate stands for its list."""
        given = own_weights(slate, scores.dtype)
        counts = list_counts(slate, scores.dtype)
        weight, own = rival_weights(slate.label, slate.mask, *counts, weight=given, estimator=estimator)
        relevant = scores.gather(1, slate.column)
        parts, buffers = _plan(scores, slate.column.shape[1])
        sums: list[Tensor] = []
        moves: list[Tensor] = []
        slope = None
        for part in parts:
            difference = _differences(scores, relevant, part, buffers)
            out = None if buffers is None else buffers[1][: difference.shape[0]]
            value, slope = surrogate.value_and_slope_(difference, out)
            sums.append(torch.bmm(value, weight[part].unsqueeze(2)).squeeze(2))
            if change is not None:
                moves.append(_moved(slope, weight[part], change[part], slate.column[part]))
        kept = slope if buffers is None and len(parts) == 1 else None
        estimate = _join(sums) + own * surrogate.at_zero
        return cls(
            estimate,
            scores,
            relevant,
            weight,
            slate.column,
            surrogate,
            parts,
            buffers,
            kept,
            _join(moves) if moves else None,
        )

    def gradient(self, coefficient: Tensor) -> Tensor:
        """[B, L]: Σ_i coefficient_i · ∇ĝ_i with respect to the scores."""
        pushes: list[Tensor] = []
        pulls: list[Tensor] = []
        for part in self.parts:
            slope = self.slope
            if slope is None:
                slope = self.surrogate.slope_(_differences(self.scores, self.relevant, part, self.buffers))
            pushes.append(torch.bmm(coefficient[part].unsqueeze(1), slope).squeeze(1))
            pulls.append(torch.bmm(slope, self.weight[part].unsqueeze(2)).squeeze(2))
        return _join(pushes).mul_(self.weight).scatter_add_(1, self.column, -_join(pulls) * coefficient)


def _differences(scores: Tensor, relevant: Tensor, part: slice, buffers: tuple[Tensor, Tensor] | None) -> Tensor:
    """h_j − h_i for these rows, [rows, P, L]; in the first buffer, if there is one, until the next call."""
    rivals, items = scores[part].unsqueeze(1), relevant[part].unsqueeze(2)
    if buffers is None:
        return rivals - items
    return torch.sub(rivals, items, out=buffers[0][: part.stop - part.start])


def _moved(slope: Tensor, weight: Tensor, change: Tensor, column: Tensor) -> Tensor:
    """Σ_j weight_j slope_ij (change_j − change_i), [rows, P]."""
    pushed, pulled = torch.bmm(slope, torch.stack((weight * change, weight), 2)).unbind(2)
    return pushed - pulled * change.gather(1, column)


def _plan(scores: Tensor, pairs: int) -> tuple[list[slice], tuple[Tensor, Tensor] | None]:
    """Rows to take at a time, and on a CPU where to compare them. A compiler makes no such tensor: all at once."""
    rows, columns = scores.shape
    if torch.compiler.is_compiling() or rows == 0:
        return [slice(0, rows)], None
    on_cpu = scores.device.type == "cpu"
    step = min(max((_IN_CACHE if on_cpu else _IN_MEMORY) // max(pairs * columns, 1), 1), rows)
    parts = [slice(first, min(first + step, rows)) for first in range(0, rows, step)]
    shape = (step, pairs, columns)
    return parts, (scores.new_empty(shape), scores.new_empty(shape)) if on_cpu else None


def _join(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
