"""A STORM step in one pass over weights, moments and both gradients; plain torch takes about 15 passes."""

import math

import triton
import triton.language as tl
from torch import Tensor

from songrank.kernels import on_device_of

_BLOCK = 1024


@triton.jit
def _step(
    weight, previous, momentum, square, now, then, step, rate, gamma, correction, beta2, new2, fade2, eps, decay,
    c, c0, a, size, TWO: tl.constexpr, ADAM: tl.constexpr, SCHEDULED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < size
    t = tl.load(step).to(tl.float64)
    rate = rate + 0.0 * t  # a tensor of that precision
    if SCHEDULED:
        eta = c * tl.exp2(-tl.log2(c0 + t) / 3.0)
        rate = rate * eta
        gamma = tl.minimum(a * eta * eta, 0.5)
    kept = tl.where(t > 1.0, 1.0 - gamma, 0.0 * t)
    w = tl.load(weight + place, mask=inside, other=0.0)
    g = tl.load(now + place, mask=inside, other=0.0) + decay * w
    if TWO:
        behind = tl.load(previous + place, mask=inside, other=0.0)
        old = tl.load(then + place, mask=inside, other=0.0) + decay * behind
        g += (g - old) * (correction * kept / (1.0 - kept)).to(tl.float32)
    m = tl.load(momentum + place, mask=inside, other=0.0)
    m = m * kept.to(tl.float32) + g * (1.0 - kept).to(tl.float32)
    move = m
    if ADAM:
        v = tl.load(square + place, mask=inside, other=0.0)
        v = v * beta2 + g * g * new2
        left = (1.0 - tl.exp2(t * fade2)).to(tl.float32)
        move = m / (tl.sqrt(v / left) + eps)
        tl.store(square + place, v, mask=inside)
    tl.store(previous + place, w, mask=inside)
    tl.store(momentum + place, m, mask=inside)
    tl.store(weight + place, w - move * rate.to(tl.float32), mask=inside)


def storm_step(
    weight: Tensor,
    state: dict[str, Tensor],
    now: Tensor,
    then: Tensor | None,
    *,
    rate: float,
    gamma: float,
    correction: float,
    beta2: float,
    eps: float,
    decay: float,
    schedule: tuple[float, float, float] | None,
) -> None:
    """One step for a whole tensor, float32 and contiguous; ``state["step"]`` already counts it.

    ``schedule`` holds c, c₀ and a of a :class:`songrank.losses.Schedule`. The torch twin is
    :class:`songrank.training.optim.storm.Storm`.
    """
    size = weight.numel()
    square = state.get("square")
    c, c0, a = (0.0, 1.0, 0.0) if schedule is None else schedule
    with on_device_of(weight):
        _step[(triton.cdiv(size, _BLOCK),)](
            weight, state["previous"], state["momentum"], weight if square is None else square,
            now, now if then is None else then, state["step"],
            rate, gamma, correction, beta2, 1.0 - beta2, math.log2(beta2) if beta2 else -1e4, eps, decay,
            c, c0, a, size,
            TWO=then is not None, ADAM=square is not None, SCHEDULED=schedule is not None, BLOCK=_BLOCK,
        )  # fmt: skip
