"""NeuMF scores of all items and of pairs, the latter with their gradient, without materialising hidden units.

Plain torch stores [B, L, H] hidden units, their mask and their gradient, about 20 MB and a pass each. Here a block of
pairs is scored in registers and recomputed in the backward pass.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from songrank.kernels import on_device_of

_COLUMNS = 32
_TILE_ROWS, _TILE_COLUMNS = 128, 64


@triton.jit
def _kept(cell, seed, share):
    """Whether dropout keeps a unit: a hash of its index and the seed is below ``share`` of the range."""
    x = cell.to(tl.uint32) * 0x9E3779B1 + seed.to(tl.uint32)
    x = (x ^ (x >> 16)) * 0x21F0AAAD
    x = (x ^ (x >> 15)) * 0x735A2D97
    x = x ^ (x >> 15)
    return (x >> 8).to(tl.float32) * (1.0 / 16777216.0) < share


@triton.jit
def _forward(
    factors, by_query, table, by_item, head, item, seed, scores,
    L, D: tl.constexpr, H: tl.constexpr, share, DROP: tl.constexpr,
    BL: tl.constexpr, BD: tl.constexpr, BH: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)  # rows first: the second axis of a grid ends at 65,535
    column = tl.program_id(1) * BL + tl.arange(0, BL)
    inside = column < L
    at = tl.load(item + b * L + column, mask=inside, other=0)
    d = tl.arange(0, BD)
    here = inside[:, None] & (d < D)[None, :]
    rows = tl.load(table + at[:, None] * D + d[None, :], mask=here, other=0.0)
    f = tl.load(factors + b * D + d, mask=d < D, other=0.0)
    total = tl.sum(rows * f[None, :], 1)
    h = tl.arange(0, BH)
    here = inside[:, None] & (h < H)[None, :]
    hidden = tl.load(by_item + at[:, None] * H + h[None, :], mask=here, other=0.0)
    hidden += tl.load(by_query + b * H + h, mask=h < H, other=0.0)[None, :]
    w = tl.load(head + h, mask=h < H, other=0.0)
    hidden = tl.maximum(hidden, 0.0, propagate_nan=tl.PropagateNan.ALL)
    if DROP:
        cell = (b * L + column)[:, None] * H + h[None, :]
        hidden = tl.where(_kept(cell, tl.load(seed), share), hidden / share, 0.0)
    total += tl.sum(hidden * w[None, :], 1)
    tl.store(scores + b * L + column, total, mask=inside)


@triton.jit
def _backward(
    gradient, factors, by_query, table, by_item, head, item, seed,
    d_factors, d_by_query, d_table, d_by_item, d_head,
    L, D: tl.constexpr, H: tl.constexpr, share, DROP: tl.constexpr,
    BL: tl.constexpr, BD: tl.constexpr, BH: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)  # rows first: the second axis of a grid ends at 65,535
    column = tl.program_id(1) * BL + tl.arange(0, BL)
    inside = column < L
    g = tl.load(gradient + b * L + column, mask=inside, other=0.0)
    inside &= g != 0.0
    at = tl.load(item + b * L + column, mask=inside, other=0)
    d = tl.arange(0, BD)
    here = inside[:, None] & (d < D)[None, :]
    rows = tl.load(table + at[:, None] * D + d[None, :], mask=here, other=0.0)
    f = tl.load(factors + b * D + d, mask=d < D, other=0.0)
    tl.atomic_add(d_factors + b * D + d, tl.sum(g[:, None] * rows, 0), mask=d < D, sem="relaxed")
    tl.atomic_add(d_table + at[:, None] * D + d[None, :], g[:, None] * f[None, :], mask=here, sem="relaxed")
    h = tl.arange(0, BH)
    here = inside[:, None] & (h < H)[None, :]
    hidden = tl.load(by_item + at[:, None] * H + h[None, :], mask=here, other=0.0)
    hidden += tl.load(by_query + b * H + h, mask=h < H, other=0.0)[None, :]
    w = tl.load(head + h, mask=h < H, other=0.0)
    slope = tl.where(hidden > 0.0, g[:, None], 0.0)
    if DROP:
        cell = (b * L + column)[:, None] * H + h[None, :]
        slope = tl.where(_kept(cell, tl.load(seed), share), slope / share, 0.0)
    tl.atomic_add(d_head + h, tl.sum(hidden * slope, 0), mask=h < H, sem="relaxed")
    slope *= w[None, :]
    tl.atomic_add(d_by_query + b * H + h, tl.sum(slope, 0), mask=h < H, sem="relaxed")
    tl.atomic_add(d_by_item + at[:, None] * H + h[None, :], slope, mask=here, sem="relaxed")


class _PairScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Tensor:
        *tensors, dropout = given
        factors, by_query, _, _, _, item, _ = tensors
        rows, columns = item.shape
        scores = torch.empty(rows, columns, dtype=factors.dtype, device=factors.device)
        ctx.save_for_backward(*tensors)
        sizes = {"D": factors.shape[1], "H": by_query.shape[1], "share": 1.0 - dropout, "DROP": dropout > 0.0}
        sizes |= {"BL": _COLUMNS, "BD": triton.next_power_of_2(sizes["D"]), "BH": triton.next_power_of_2(sizes["H"])}
        ctx.sizes = sizes
        with on_device_of(scores):
            _forward[(rows, triton.cdiv(columns, _COLUMNS))](*tensors, scores, columns, **sizes)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        tensors = ctx.saved_tensors
        factors, by_query, table, by_item, head, item = tensors[:6]
        rows, columns = item.shape
        found = [torch.zeros_like(part) for part in (factors, by_query, table, by_item, head)]
        with on_device_of(gradient):
            grid = (rows, triton.cdiv(columns, _COLUMNS))
            _backward[grid](gradient.contiguous(), *tensors, *found, columns, **ctx.sizes)
        return *found, None, None, None


def pair_scores(
    factors: Tensor, by_query: Tensor, table: Tensor, by_item: Tensor, head: Tensor, item: Tensor, dropout: float = 0.0
) -> Tensor:
    """[B, L]: factors_b · table_i + head · drop(relu(by_query_b + by_item_i)) with i = item[b, l].

    Shapes: factors [B, D], by_query [B, H], table [N, D], by_item [N, H], head [H], item [B, L]. ``dropout`` is the
    fraction of hidden units dropped; the units differ from torch's. The torch twin is
    :meth:`songrank.models.NeuMF.forward`.
    """
    seed = torch.randint(2**31, (1,), device=item.device) if dropout else item.new_zeros(1)
    parts = (part.contiguous() for part in (factors, by_query, table, by_item, head, item))
    scores: Tensor = _PairScores.apply(*parts, seed, dropout)
    return scores


@triton.jit
def _all_scores(
    factors, by_query, table, by_item, head, scores, B, N,
    D: tl.constexpr, H: tl.constexpr, BB: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    b = (tl.program_id(1) * BB + tl.arange(0, BB)).to(tl.int64)
    n = (tl.program_id(0) * BN + tl.arange(0, BN)).to(tl.int64)
    total = tl.zeros((BB, BN), tl.float32)
    for d in range(D):
        at = tl.cast(d, tl.int64)
        f = tl.load(factors + at * B + b, mask=b < B, other=0.0)
        t = tl.load(table + at * N + n, mask=n < N, other=0.0)
        total += f[:, None] * t[None, :]
    for h in range(H):
        at = tl.cast(h, tl.int64)
        q = tl.load(by_query + at * B + b, mask=b < B, other=0.0)
        v = tl.load(by_item + at * N + n, mask=n < N, other=0.0)
        hidden = tl.maximum(q[:, None] + v[None, :], 0.0, propagate_nan=tl.PropagateNan.ALL)
        total += hidden * tl.load(head + h)
    inside = (b < B)[:, None] & (n < N)[None, :]
    tl.store(scores + b[:, None] * N + n[None, :], total, mask=inside)


def all_scores(factors: Tensor, by_query: Tensor, table: Tensor, by_item: Tensor, head: Tensor) -> Tensor:
    """[B, N]: factors_b · table_n + head · relu(by_query_b + by_item_n), in float32 throughout.

    Shapes: factors [B, D], by_query [B, H], table [N, D], by_item [N, H], head [H]. The torch twin is
    :meth:`songrank.models.NeuMF.score_all`.
    """
    rows, columns = factors.shape[0], table.shape[0]
    scores = torch.empty(rows, columns, device=factors.device)
    # Transposed, so that neighbouring threads read adjacent elements.
    parts = (part.T.contiguous() for part in (factors, by_query, table, by_item))
    with on_device_of(scores):
        _all_scores[(triton.cdiv(columns, _TILE_COLUMNS), triton.cdiv(rows, _TILE_ROWS))](
            *parts, head.contiguous(), scores, rows, columns,
            D=factors.shape[1], H=by_query.shape[1], BB=_TILE_ROWS, BN=_TILE_COLUMNS,
        )  # fmt: skip
    return scores
