"""The algorithms of the theorems, as implemented, each with two constants to tune: the learning rate and a."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from songrank.core.slate import Slate
from songrank.losses.ksong import KSONG
from songrank.losses.paper_form import PaperForm
from songrank.losses.song import SONG
from songrank.losses.top_k import ThresholdOptions
from songrank_paper.theory.problem import DECAY, EPSILON, MARGIN, SELECTOR_SCALE, TAU1, TAU2, K
from songrank_paper.theory.runs import Draws, Scorer
from songrank_paper.theory.two_points import StepSizes, TwoPoints

THRESHOLD_RATE = 2.0
"""η₀/γ of the step of λ in K-SONG."""
FASTER_THRESHOLD_RATE = 0.5
"""τ of the step of λ in Faster K-SONG, at most 1/(2 L_L) = 0.6 by the theorem."""
C0 = 100.0
"""c₀ of the schedule of the faster forms."""
TOP_K: dict[str, Any] = {
    "rank_offset": 0.0,
    "margin": MARGIN,
    "selector_scale": SELECTOR_SCALE,
    "dtype": torch.float64,
}
"""K of both K-SONG losses on this problem."""
SMOOTHING: dict[str, Any] = {"epsilon": EPSILON, "tau1": TAU1, "tau2": TAU2}
"""Options of the problem of λ."""
EQUATION_5: dict[str, Any] = {"centre": "zero", "threshold_step": "gradient", "implicit": "memory"}
"""Options of both K-SONG losses: λ and ∇λ as in eq. (5)."""


@dataclass(frozen=True)
class Stepper:
    """A method during its runs: ``step(slate)`` is a step of all runs."""

    step: Callable[[Slate], None]
    momentum: Callable[[], Tensor]
    """[R, d]: m of each run, if the method has momentum (a < 1 for one point)."""


@dataclass(frozen=True)
class Method:
    """An algorithm: its title, its objective, and the number of points per step at which it evaluates the gradient.

    ``form`` of a method with two points is one of ``two_points.FORMS``, which says which u and s the two gradients use;
    ``memory`` is their estimator: MSVR, as in the paper, or STORM. With one point, the printed form uses u and s from
    before the step, the default of the package those from after it. ``theorem`` is the exponent of T in the theorem
    whose algorithm this is: T^(−1/2) for 1/ε⁴ iterations, T^(−2/3) for 1/ε³; None for any other form.
    """

    title: str
    top_k: bool
    points: int
    form: str = ""
    memory: str = "msvr"
    theorem: float | None = None


METHODS = {
    "biased": Method("biased SGD (γ = 1)", top_k=False, points=1),
    "song": Method("SONG", top_k=False, points=1),
    "printed-song": Method("SONG, printed", top_k=False, points=1, form="printed", theorem=-0.5),
    "faster-song": Method("Faster SONG, printed", top_k=False, points=2, form="printed", theorem=-2.0 / 3.0),
    "exact-lag-msvr-song": Method("Faster SONG, exact lag, MSVR", top_k=False, points=2, form="exact-lag"),
    "exact-lag-song": Method("Faster SONG, exact lag", top_k=False, points=2, form="exact-lag", memory="storm"),
    "lagged-song": Method("Faster SONG, lagged", top_k=False, points=2, form="lagged", memory="storm"),
    "corrected-song": Method("Faster SONG, corrected", top_k=False, points=2, form="corrected", memory="storm"),
    "corrected-average-song": Method(
        "Faster SONG, corrected, moving average", top_k=False, points=2, form="corrected", memory="moving_average"
    ),
    "k-song": Method("K-SONG", top_k=True, points=1),
    "printed-k-song": Method("K-SONG, printed", top_k=True, points=1, form="printed", theorem=-0.5),
    "faster-k-song": Method("Faster K-SONG, printed", top_k=True, points=2, form="printed", theorem=-2.0 / 3.0),
    "exact-lag-msvr-k-song": Method("Faster K-SONG, exact lag, MSVR", top_k=True, points=2, form="exact-lag"),
    "exact-lag-k-song": Method("Faster K-SONG, exact lag", top_k=True, points=2, form="exact-lag", memory="storm"),
    "lagged-k-song": Method("Faster K-SONG, lagged", top_k=True, points=2, form="lagged", memory="storm"),
    "corrected-k-song": Method("Faster K-SONG, corrected", top_k=True, points=2, form="corrected", memory="storm"),
    "corrected-average-k-song": Method(
        "Faster K-SONG, corrected, moving average", top_k=True, points=2, form="corrected", memory="moving_average"
    ),
}


def stepper(name: str, scorer: Scorer, draws: Draws, a: float, rates: Sequence[float]) -> Stepper:
    """The steps of a method on all runs of a scorer, whose copies have these learning rates.

    a is the update rate of all estimates per step. With π = |B|/queries, the probability that a row is drawn: momentum
    β₁ = 1 − a; γ = min(½, a/π) for u and s; the step of λ is 2γ (biased SGD: γ = 1). The faster forms use
    ``Schedule(c0=100, a)``.

    >>> from songrank_paper.theory.problem import make_problem
    >>> problem = make_problem()
    >>> draws, scorer = Draws(problem, 5, 8, seeds=(0,)), Scorer(problem, copies=1, seeds=1)
    >>> song = stepper("song", scorer, draws, a=0.1, rates=[1.0])
    >>> for slate in draws.steps(10):
    ...     song.step(slate)
    >>> problem.value(scorer.weights()) < problem.value(torch.zeros(1, 10, dtype=torch.float64))
    tensor([True])
    """
    method, runs, base = METHODS[name], len(rates) * len(draws.seeds), draws.problem.relevance
    if method.points == 1:
        rows = (runs * base.num_pairs, runs * base.num_queries)
        groups = [{"params": [weight], "lr": rate} for weight, rate in zip(scorer.runs, rates, strict=True)]
        gamma = 1.0 if name == "biased" else min(0.5, a * base.num_queries / draws.batch)
        optimiser = torch.optim.SGD(groups, momentum=1.0 - a, dampening=1.0 - a, weight_decay=DECAY)
        return _one_point(scorer, _loss(rows, gamma, method), optimiser, runs)
    constants = StepSizes(a, C0, FASTER_THRESHOLD_RATE)
    running = TwoPoints(scorer, draws, rates, constants, method.form, method.memory, top_k=method.top_k)
    return Stepper(running.step, running.momentum)


def _loss(rows: tuple[int, int], gamma: float, method: Method) -> SONG:
    lagged = method.form == "printed"
    if not method.top_k:
        form = PaperForm(lagged=lagged)
        return SONG(rows[0], gamma, margin=MARGIN, rank_offset=0.0, form=form, dtype=torch.float64)
    form = PaperForm(lagged=lagged, **{**EQUATION_5, "implicit": "memory_before" if lagged else "memory"})
    threshold = ThresholdOptions(THRESHOLD_RATE * gamma, gamma, **SMOOTHING)
    return KSONG(*rows, K, gamma, threshold=threshold, form=form, **TOP_K)


def _one_point(scorer: Scorer, loss: SONG, optimiser: torch.optim.SGD, runs: int) -> Stepper:
    def step(slate: Slate) -> None:
        optimiser.zero_grad()
        value: Tensor = loss(scorer(slate.query, slate.item), slate)
        torch.autograd.backward(runs * value)
        optimiser.step()

    def momentum() -> Tensor:
        return torch.cat([optimiser.state[weight]["momentum_buffer"] for weight in scorer.runs])

    return Stepper(step, momentum)
