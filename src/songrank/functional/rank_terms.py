"""Smooth ranks ĝ of a slate's relevant items and their gradient in closed form."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from songrank.core.slate import Slate
from songrank.functional.strata import list_counts, rival_weights, slate_lists
from songrank.functional.surrogates import Surrogate

_IN_CACHE = 2**18
"""Comparisons per chunk on a CPU: results stay in its cache (three times as fast at 256 × 10 × 310)."""
_IN_MEMORY = 2**26
"""Comparisons per chunk on a GPU: 256 MB in float32."""
_OF_ONE_LIST, _OF_A_PART = 2**24, 2**20
"""On a CPU: comparisons of one list above which it is compared in parts, 64 MB in float32, and comparisons per part."""


class Chunk(NamedTuple):
    """A part of the comparisons [B, P, L]: these rows and these relevant items, with all columns."""

    rows: slice
    items: slice


@dataclass(frozen=True)
class RankTerms:
    """ĝ [B, P] and the inputs of its gradient; the comparisons [B, P, L] are computed in chunks.

    ``weight`` is [B, L], or [B, 1] for whole lists, whose columns have equal weights. On a CPU two buffers hold the
    comparisons, which the gradient recomputes: allocation costs more than arithmetic. Elsewhere the slopes are kept if
    they fit in one chunk. ``moved`` [B, P] is ĝ's derivative along a given change of the scores:
    Σ_j w_j ℓ′(h_j − h_i)(dh_j − dh_i).
    """

    estimate: Tensor
    scores: Tensor
    relevant: Tensor
    weight: Tensor
    column: Tensor
    surrogate: Surrogate
    parts: list[Chunk]
    buffers: tuple[Tensor, Tensor] | None
    slope: Tensor | None
    moved: Tensor | None = None

    @classmethod
    def of(
        cls, scores: Tensor, slate: Slate, surrogate: Surrogate, estimator: str, change: Tensor | None = None
    ) -> "RankTerms":
        """Compare each relevant item with every column."""
        weight, own = _weights(slate, scores.dtype, estimator)
        even = weight.shape[1] != scores.shape[1]
        relevant = scores.gather(1, slate.column)
        parts, buffers = _plan(scores, slate.column.shape[1])
        sums: list[Tensor] = []
        moves: list[Tensor] = []
        slope = None
        for part in parts:
            difference = _differences(scores, relevant, part, buffers)
            out = None if buffers is None else _shaped(buffers[1], difference.shape)
            if even:
                total, slope = surrogate.total_and_slope_(difference, out)
                sums.append(total * weight[part.rows])
            else:
                value, slope = surrogate.value_and_slope_(difference, out)
                sums.append(torch.bmm(value, weight[part.rows].unsqueeze(2)).squeeze(2))
            if change is not None:
                each = weight[part.rows].expand(-1, scores.shape[1])
                moves.append(_moved(slope, each, change[part.rows], slate.column[part]))
        kept = slope if buffers is None and len(parts) == 1 else None
        moved = assemble(parts, moves) if moves else None
        estimate = assemble(parts, sums) + own * surrogate.at_zero
        return cls(estimate, scores, relevant, weight, slate.column, surrogate, parts, buffers, kept, moved)

    def gradient(self, coefficient: Tensor, _: Tensor | None = None) -> Tensor:
        """[B, L]: Σ_i coefficient_i · ∇ĝ_i with respect to the scores; u is not needed."""
        even = self.weight.shape[1] != self.scores.shape[1]
        if even:
            coefficient = coefficient * self.weight
        pushes: list[Tensor] = []
        pulls: list[Tensor] = []
        for part in self.parts:
            slope = self.slope
            if slope is None:
                slope = self.surrogate.slope_(_differences(self.scores, self.relevant, part, self.buffers))
            if slope.shape[1] == 1:  # many products of one number and a list are slow on a GPU
                pushes.append(coefficient[part] * slope.squeeze(1))
            else:
                pushes.append(torch.bmm(coefficient[part].unsqueeze(1), slope).squeeze(1))
            pulls.append(slope.sum(2) if even else torch.bmm(slope, self.weight[part.rows].unsqueeze(2)).squeeze(2))
        pushed = add_up(self.parts, pushes)
        pushed = pushed if even else pushed.mul_(self.weight)
        return pushed.scatter_add_(1, self.column, -assemble(self.parts, pulls) * coefficient)


def _weights(slate: Slate, dtype: torch.dtype, estimator: str) -> tuple[Tensor, Tensor]:
    """``rival_weights`` of the slate; equal weights without correction for whole lists."""
    if slate.whole and slate.weight is None:
        weight = (1.0 / list_counts(slate, dtype)[0]).unsqueeze(1)
        return weight, torch.zeros_like(weight)
    return rival_weights(**slate_lists(slate, dtype), estimator=estimator)


def _differences(scores: Tensor, relevant: Tensor, part: Chunk, buffers: tuple[Tensor, Tensor] | None) -> Tensor:
    """h_j − h_i of this part, [rows, items, L]; in the first buffer, if any, valid until the next call."""
    rivals, items = scores[part.rows].unsqueeze(1), relevant[part].unsqueeze(2)
    if buffers is None:
        return rivals - items
    return torch.sub(rivals, items, out=_shaped(buffers[0], (rivals.shape[0], items.shape[1], rivals.shape[2])))


def _shaped(buffer: Tensor, shape: Sequence[int]) -> Tensor:
    return buffer[: shape[0], : shape[1]]


def _moved(slope: Tensor, weight: Tensor, change: Tensor, column: Tensor) -> Tensor:
    """Σ_j weight_j slope_ij (change_j − change_i), [rows, P]."""
    pushed, pulled = torch.bmm(slope, torch.stack((weight * change, weight), 2)).unbind(2)
    return pushed - pulled * change.gather(1, column)


def comparison_chunks(scores: Tensor, pairs: int) -> list[Chunk]:
    """Chunks whose comparisons fit in the cache of a CPU, or in memory; one chunk in compiled code.

    A chunk has whole lists, except of lists with more than 2²⁴ comparisons (on a GPU 2²⁶), of which it has some items.
    """
    rows, columns = scores.shape
    if torch.compiler.is_compiling() or rows == 0:
        return [Chunk(slice(0, rows), slice(0, pairs))]
    on_cpu, of_one_list = scores.device.type == "cpu", max(pairs * columns, 1)
    step = min(max((_IN_CACHE if on_cpu else _IN_MEMORY) // of_one_list, 1), rows)
    width = pairs
    if of_one_list > (_OF_ONE_LIST if on_cpu else _IN_MEMORY):
        width = max((_OF_A_PART if on_cpu else _IN_MEMORY) // columns, 1)
    return [
        Chunk(slice(first, min(first + step, rows)), slice(begin, min(begin + width, pairs)))
        for first in range(0, rows, step)
        for begin in range(0, max(pairs, 1), max(width, 1))
    ]


def _plan(scores: Tensor, pairs: int) -> tuple[list[Chunk], tuple[Tensor, Tensor] | None]:
    """Chunks and, on a CPU, the buffers; compiled code does not materialise the comparisons."""
    parts = comparison_chunks(scores, pairs)
    if torch.compiler.is_compiling() or scores.device.type != "cpu" or scores.shape[0] == 0:
        return parts, None
    shape = (parts[0].rows.stop, parts[0].items.stop, scores.shape[1])
    return parts, (scores.new_empty(shape), scores.new_empty(shape))


def assemble(parts: Sequence[Chunk], values: Sequence[Tensor]) -> Tensor:
    """[B, P] from the values [rows, items] of each chunk."""
    if len(values) == 1:
        return values[0]
    lists = _by_rows(parts, values)
    return torch.cat([some[0] if len(some) == 1 else torch.cat(some, 1) for some in lists])


def add_up(parts: Sequence[Chunk], values: Sequence[Tensor]) -> Tensor:
    """[B, L]: the sums over items, from those [rows, L] of each chunk."""
    if len(values) == 1:
        return values[0]
    lists = _by_rows(parts, values)
    return torch.cat([some[0] if len(some) == 1 else torch.stack(some).sum(0) for some in lists])


def _by_rows(parts: Sequence[Chunk], values: Sequence[Tensor]) -> list[list[Tensor]]:
    both = groupby(zip(parts, values, strict=True), key=lambda pair: pair[0].rows.start)
    return [[value for _, value in some] for _, some in both]
