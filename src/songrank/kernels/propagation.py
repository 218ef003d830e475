"""A layer of graph propagation in one pass; plain torch scales, sums and adds in three."""

import triton
import triton.language as tl
from torch import Tensor, empty_like

from songrank.kernels import on_device_of

_EDGES = 64
"""Neighbours that are read at a time."""


@triton.jit
def _layer(
    vectors, total, scale, offsets, neighbours, result, divisor,
    D: tl.constexpr, BD: tl.constexpr, BE: tl.constexpr,
):  # fmt: skip
    v = tl.program_id(0).to(tl.int64)
    begin, end = tl.load(offsets + v), tl.load(offsets + v + 1)
    d = tl.arange(0, BD)
    sums = tl.zeros((BD,), tl.float32)
    for first in range(begin, end, BE):
        edge = first + tl.arange(0, BE)
        inside = edge < end
        u = tl.load(neighbours + edge, mask=inside, other=0).to(tl.int64)
        weight = tl.load(scale + u, mask=inside, other=0.0)
        rows = tl.load(total + u[:, None] * D + d[None, :], mask=inside[:, None] & (d < D)[None, :], other=0.0)
        sums += tl.sum(rows * weight[:, None], 0)
    own = tl.load(vectors + v * D + d, mask=d < D, other=0.0)
    tl.store(result + v * D + d, (own + sums * tl.load(scale + v)) / divisor, mask=d < D)


def propagation(vectors: Tensor, scale: Tensor, offsets: Tensor, neighbours: Tensor, layers: int) -> Tensor:
    """(1 / (K + 1)) Σ_{k=0}^K Âᵏ X with Â = S A S, for K ≥ 1, X [V, D] and S = diag(``scale`` [V]), in float32.

    The torch twin is :func:`songrank.models._graph.propagate`.
    """
    vectors, width = vectors.contiguous(), vectors.shape[1]
    total = vectors
    with on_device_of(vectors):
        for layer in range(layers):
            result = empty_like(vectors)
            divisor = float(layers + 1) if layer == layers - 1 else 1.0
            _layer[(vectors.shape[0],)](
                vectors, total, scale, offsets, neighbours, result, divisor,
                D=width, BD=triton.next_power_of_2(width), BE=_EDGES,
            )  # fmt: skip
            total = result
    return total
