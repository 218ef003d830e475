"""Adam on selected rows of several tables, applying all missed steps in registers, and on whole tensors."""

import math

import triton
import triton.language as tl
from torch import Tensor

from songrank.kernels import on_device_of

_BLOCK = 1024


@triton.jit
def _adam(w, m, v, g, t, corrections, entries, rate, beta1, beta2, new1, new2, epsilon, decay):
    """(w, m, v) after step t; 1 − β is passed from the host, since float32 loses its fifth digit."""
    at = tl.minimum(t, entries - 1)
    g += decay * w
    m = beta1 * m + new1 * g
    v = beta2 * v + new2 * g * g
    w -= rate * tl.load(corrections + at) * m / (tl.sqrt(v) * tl.load(corrections + entries + at) + epsilon)
    return w, m, v


@triton.jit
def _take_steps(
    addresses, rows, step, corrections, entries, rate, beta1, beta2, new1, new2, fade1, fade2, epsilon, decay, limit,
    D: tl.constexpr, BD: tl.constexpr, ALL: tl.constexpr, APPLY: tl.constexpr, LAZY: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    if not ALL:
        row = tl.load(rows + row)
    where = addresses + tl.program_id(1) * 5
    now = tl.load(step).to(tl.int32)
    last = tl.load(where + 4).to(tl.pointer_type(tl.int32))
    before = tl.atomic_xchg(last + row, now)  # if rows repeat, the second program has nothing left to do
    if before < now:
        d = tl.arange(0, BD)
        inside = d < D
        place = row * D + d
        weight = tl.load(where).to(tl.pointer_type(tl.float32)) + place
        first = tl.load(where + 1).to(tl.pointer_type(tl.float32)) + place
        second = tl.load(where + 2).to(tl.pointer_type(tl.float32)) + place
        w = tl.load(weight, mask=inside, other=0.0)
        m = tl.load(first, mask=inside, other=0.0)
        v = tl.load(second, mask=inside, other=0.0)
        if LAZY:
            before = now - 1
        end = now - 1 if APPLY else now
        stop = tl.minimum(end, before + limit)
        for t in range(before + 1, stop + 1):
            w, m, v = _adam(w, m, v, 0.0, t, corrections, entries, rate, beta1, beta2, new1, new2, epsilon, decay)
        rest = (end - stop).to(tl.float32)
        m *= tl.exp2(rest * fade1)
        v *= tl.exp2(rest * fade2)
        if APPLY:
            gradient = tl.load(where + 3).to(tl.pointer_type(tl.float32)) + place
            g = tl.load(gradient, mask=inside, other=0.0)
            tl.store(gradient, tl.zeros_like(g), mask=inside)
            w, m, v = _adam(w, m, v, g, now, corrections, entries, rate, beta1, beta2, new1, new2, epsilon, decay)
        tl.store(weight, w, mask=inside)
        tl.store(first, m, mask=inside)
        tl.store(second, v, mask=inside)


@triton.jit
def _whole_step(
    weight, first, second, gradient, step, corrections, entries, rate, beta1, beta2, new1, new2, epsilon, decay, size,
    BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    w = tl.load(weight + place, mask=inside, other=0.0)
    m = tl.load(first + place, mask=inside, other=0.0)
    v = tl.load(second + place, mask=inside, other=0.0)
    g = tl.load(gradient + place, mask=inside, other=0.0)
    t = tl.load(step).to(tl.int32)
    w, m, v = _adam(w, m, v, g, t, corrections, entries, rate, beta1, beta2, new1, new2, epsilon, decay)
    tl.store(weight + place, w, mask=inside)
    tl.store(first + place, m, mask=inside)
    tl.store(second + place, v, mask=inside)


def whole_step(
    weight: Tensor,
    moments: tuple[Tensor, Tensor],
    gradient: Tensor,
    step: Tensor,
    corrections: Tensor,
    *,
    rate: float,
    betas: tuple[float, float],
    epsilon: float,
    decay: float,
) -> None:
    """One Adam step for a whole tensor; torch's own kernel leaves half of a GPU idle below 10⁷ elements."""
    size = weight.numel()
    with on_device_of(weight):
        _whole_step[(triton.cdiv(size, _BLOCK),)](
            weight, *moments, gradient, step, corrections, corrections.shape[1],
            rate, *betas, *(1.0 - beta for beta in betas), epsilon, decay, size, BLOCK=_BLOCK,
        )  # fmt: skip


def take_steps(
    addresses: Tensor,
    width: int,
    rows: Tensor | int,
    step: Tensor,
    corrections: Tensor,
    *,
    rate: float,
    betas: tuple[float, float],
    epsilon: float,
    decay: float,
    limit: int,
    apply: bool,
    lazy: bool,
) -> None:
    """Apply deferred row updates up to ``step``; with ``apply`` the last step uses the gradient in the buffer.

    The torch twin is :func:`songrank.training.optim.row_adam.take_steps`. ``addresses`` [T, 5] int64 holds the
    addresses of each table's weights, two moments, gradients and last steps; all tables have ``width`` columns.
    ``rows`` [n] int64 may repeat; a number stands for all rows below it. ``corrections`` [2, entries] holds Adam's
    factors 1/(1 − β₁ᵗ) and 1/√(1 − β₂ᵗ) of each step t, 1 from the last on. After ``limit`` missed steps m no longer
    changes the weights; ``lazy`` skips missed steps.
    """
    count = rows if isinstance(rows, int) else rows.numel()
    block = triton.next_power_of_2(width)
    with on_device_of(addresses):
        _take_steps[(count, addresses.shape[0])](
            addresses, step if isinstance(rows, int) else rows, step, corrections, corrections.shape[1],
            rate, *betas, *(1.0 - beta for beta in betas), *(math.log2(beta) for beta in betas), epsilon, decay, limit,
            D=width, BD=block, ALL=isinstance(rows, int), APPLY=apply, LAZY=lazy, num_warps=max(1, min(4, block // 32)),
        )  # fmt: skip
