"""NeuMF's scores of all items for some queries, without a tensor of hidden cells."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from songrank.kernels import on_device_of

_ROWS, _COLUMNS = 128, 64


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

    The torch twin is :meth:`songrank.models.NeuMF.score_all`.

    Args:
        factors: [B, D].
        by_query: [B, H].
        table: [N, D].
        by_item: [N, H].
        head: [H].

    """
    rows, columns = factors.shape[0], table.shape[0]
    scores = torch.empty(rows, columns, device=factors.device)
    # Transposed, so that neighbouring threads read neighbouring numbers.
    parts = (part.T.contiguous() for part in (factors, by_query, table, by_item))
    with on_device_of(scores):
        _all_scores[(triton.cdiv(columns, _COLUMNS), triton.cdiv(rows, _ROWS))](
            *parts, head.contiguous(), scores, rows, columns,
            D=factors.shape[1], H=by_query.shape[1], BB=_ROWS, BN=_COLUMNS,
        )  # fmt: skip
    return scores
