"""Positions of a few columns of a score matrix, which is read once; plain torch reads it for each column."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from songrank.kernels import on_device_of

_COLUMNS = 32
"""Columns that are counted in one pass over a row."""
_TILE = 4096
"""Comparisons at a time."""


@triton.jit
def _count(
    scores, item, count, begin, end, taken, at_least, above, nan, N, P,
    AVERAGE: tl.constexpr, EXCLUDED: tl.constexpr, BP: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BP + tl.arange(0, BP)
    own = tl.load(item + b * P + column, mask=column < P, other=0)
    target = tl.load(scores + b * N + own)
    reached = tl.zeros((BP, BN), tl.int32)
    passed = tl.zeros((BP, BN), tl.int32)
    missing = tl.zeros((BN,), tl.int32)
    for first in range(0, N, BN):
        place = first + tl.arange(0, BN)
        inside = place < N
        score = tl.load(scores + b * N + place, mask=inside, other=0.0)
        reached += ((score[None, :] >= target[:, None]) & inside[None, :]).to(tl.int32)
        if AVERAGE:
            passed += ((score[None, :] > target[:, None]) & inside[None, :]).to(tl.int32)
        missing += ((score != score) & inside).to(tl.int32)
    if EXCLUDED:  # items out of the ranking, and the row's targets, which are among them but do compete
        last = tl.load(end + b)
        for first in range(tl.load(begin + b), last, BN):
            place = first + tl.arange(0, BN)
            inside = place < last
            at = tl.load(taken + place, mask=inside, other=0)
            score = tl.load(scores + b * N + at, mask=inside, other=0.0)
            reached -= ((score[None, :] >= target[:, None]) & inside[None, :]).to(tl.int32)
            if AVERAGE:
                passed -= ((score[None, :] > target[:, None]) & inside[None, :]).to(tl.int32)
        last = tl.load(count + b)
        for first in range(0, last, BN):
            place = first + tl.arange(0, BN)
            inside = place < last
            at = tl.load(item + b * P + place, mask=inside, other=0)
            score = tl.load(scores + b * N + at, mask=inside, other=0.0)
            reached += ((score[None, :] >= target[:, None]) & inside[None, :]).to(tl.int32)
            if AVERAGE:
                passed += ((score[None, :] > target[:, None]) & inside[None, :]).to(tl.int32)
    tl.store(at_least + b * P + column, tl.sum(reached, 1).to(tl.int64), mask=column < P)
    if AVERAGE:
        tl.store(above + b * P + column, tl.sum(passed, 1).to(tl.int64), mask=column < P)
    if tl.program_id(1) == 0:
        tl.store(nan + b, tl.sum(missing, 0))


def count_positions(
    scores: Tensor, item: Tensor, count: Tensor, taken: tuple[Tensor, Tensor, Tensor] | None, ties: str
) -> tuple[Tensor, Tensor, Tensor]:
    """First and last position, from 1, of the columns ``item`` [b, P] of ``scores`` [b, N]; and the NaNs per row.

    The first ``count`` [b] columns of a row are its targets. ``taken`` has the begin and end [b] of each row in a list
    of item ids: its targets and the items that do not compete. The torch twin is
    :func:`songrank.metrics.positions.positions`, for ``"pessimistic"`` and ``"average"``.
    """
    (rows, columns), average = item.shape, ties == "average"
    tile = min(triton.next_power_of_2(columns), _COLUMNS)
    last = torch.empty(rows, columns, dtype=torch.int64, device=scores.device)
    above = torch.empty_like(last) if average else last
    nan = torch.empty(rows, dtype=torch.int32, device=scores.device)
    lists = (count, count, item) if taken is None else taken
    with on_device_of(scores):
        _count[(rows, triton.cdiv(columns, tile))](
            scores.contiguous(), item.contiguous(), count, *lists, last, above, nan, scores.shape[1], columns,
            AVERAGE=average, EXCLUDED=taken is not None, BP=tile, BN=_TILE // tile,
        )  # fmt: skip
    return above + 1 if average else last, last, nan
