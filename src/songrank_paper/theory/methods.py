"""The algorithms of the theorems, as implemented, each with two constants to tune: the learning rate and a."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from songrank.core.slate import Slate
from songrank.losses.faster_ksong import FasterKSONG
from songrank.losses.faster_song import FasterSONG, VarianceReduced
from songrank.losses.ksong import KSONG
from songrank.losses.paper_form import FasterForm, PaperForm
from songrank.losses.schedules import Schedule
from songrank.losses.song import SONG
from songrank.losses.top_k import ThresholdOptions
from songrank.training.optim.storm import Storm
from songrank_paper.theory.problem import DECAY, EPSILON, MARGIN, SELECTOR_SCALE, TAU1, TAU2, K
from songrank_paper.theory.runs import Draws, Scorer

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
    optimiser: torch.optim.Optimizer

    def momentum(self) -> Tensor:
        """[R, d]: m of each run, if the method has momentum (a < 1 for one point)."""
        names = {"momentum", "momentum_buffer"}
        states = [self.optimiser.state[group["params"][0]] for group in self.optimiser.param_groups]
        return torch.cat([state[name] for state in states for name in names & set(state)])


@dataclass(frozen=True)
class Method:
    """An algorithm: its title, its objective, and the number of points per step at which it evaluates the gradient.

    In the faster forms of the paper, G(w_t) uses u_t and s_t, which the same slate has just updated, and G(w_{t−1})
    uses u_{t−1} and s_{t−1}. ``lagged`` uses the values of a step earlier, which do not depend on the slate: u_{t−1}
    and s_{t−1}, and u_{t−2} and s_{t−2}. ``memory`` is their estimator: MSVR, as in the paper, or STORM. ``shipped`` is
    the form of the package, with u_{t−1} and s_{t−1} in both gradients.
    """

    title: str
    top_k: bool
    points: int
    lagged: bool = False
    memory: str = "msvr"
    shipped: bool = False


METHODS = {
    "biased": Method("biased SGD (γ = 1)", top_k=False, points=1),
    "song": Method("SONG", top_k=False, points=1),
    "faster-song": Method("Faster SONG", top_k=False, points=2),
    "lagged-faster-song": Method("Faster SONG, lagged", top_k=False, points=2, lagged=True),
    "lagged-storm-song": Method("Faster SONG, lagged, STORM", top_k=False, points=2, lagged=True, memory="storm"),
    "shipped-song": Method("Faster SONG, as shipped", top_k=False, points=2, memory="storm", shipped=True),
    "k-song": Method("K-SONG", top_k=True, points=1),
    "faster-k-song": Method("Faster K-SONG", top_k=True, points=2),
    "lagged-faster-k-song": Method("Faster K-SONG, lagged", top_k=True, points=2, lagged=True),
    "lagged-storm-k-song": Method("Faster K-SONG, lagged, STORM", top_k=True, points=2, lagged=True, memory="storm"),
    "shipped-k-song": Method("Faster K-SONG, as shipped", top_k=True, points=2, memory="storm", shipped=True),
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
    rows = (runs * base.num_pairs, runs * base.num_queries)
    groups = [{"params": [weight], "lr": rate} for weight, rate in zip(scorer.runs, rates, strict=True)]
    if method.points == 1:
        gamma = 1.0 if name == "biased" else min(0.5, a * base.num_queries / draws.batch)
        optimiser = torch.optim.SGD(groups, momentum=1.0 - a, dampening=1.0 - a, weight_decay=DECAY)
        return _one_point(scorer, _plain(rows, gamma, top_k=method.top_k), optimiser, runs)
    schedule = Schedule(C0, a)
    storm = Storm(groups, weight_decay=DECAY, schedule=schedule)
    loss = _faster(rows, runs * draws.batch, schedule, method)
    # Only gradients at the given u and s are needed; γ = 1e-12 leaves s unchanged.
    by_given = _plain(rows, 1e-12, top_k=method.top_k, lagged=True) if method.lagged else None
    return _two_points(scorer, loss, storm, runs, by_given)


def _plain(rows: tuple[int, int], gamma: float, *, top_k: bool, lagged: bool = False) -> SONG:
    if not top_k:
        form = PaperForm(lagged=lagged)
        return SONG(rows[0], gamma, margin=MARGIN, rank_offset=0.0, form=form, dtype=torch.float64)
    threshold = ThresholdOptions(THRESHOLD_RATE * gamma, gamma, **SMOOTHING)
    return KSONG(*rows, K, gamma, threshold=threshold, form=PaperForm(lagged=lagged, **EQUATION_5), **TOP_K)


def _faster(rows: tuple[int, int], batch: int, schedule: Schedule, method: Method) -> VarianceReduced:
    if not method.top_k:
        options: dict[str, Any] = {"margin": MARGIN, "rank_offset": 0.0, "dtype": torch.float64}
        form = FasterForm(lagged=method.shipped, memory=method.memory)
        return FasterSONG(*rows, batch, schedule, form=form, **options)
    form = FasterForm(lagged=method.shipped, memory=method.memory, **EQUATION_5)
    threshold = ThresholdOptions(FASTER_THRESHOLD_RATE, **SMOOTHING)
    return FasterKSONG(*rows, K, batch, schedule, threshold=threshold, form=form, **TOP_K)


def _one_point(scorer: Scorer, loss: SONG, optimiser: torch.optim.SGD, runs: int) -> Stepper:
    def step(slate: Slate) -> None:
        optimiser.zero_grad()
        value: Tensor = loss(scorer(slate.query, slate.item), slate)
        torch.autograd.backward(runs * value)
        optimiser.step()

    return Stepper(step, optimiser)


def _two_points(scorer: Scorer, loss: VarianceReduced, optimiser: Storm, runs: int, by_given: SONG | None) -> Stepper:
    """The form of the paper or, with ``by_given``, with the estimates of one step earlier in its tables."""
    previous = optimiser.previous(scorer)

    def step(slate: Slate) -> None:
        optimiser.zero_grad()
        where = slate.query, slate.item
        now, before = scorer(*where), functional_call(scorer, previous, where)
        if by_given is None:
            value: Tensor = loss(now, slate, before=before)
        else:
            value = by_given.step(now, slate, loss.gather(slate))[0]
            value = value + by_given.step(before, slate, by_given.gather(slate))[0]
            for table in (*by_given.by_pair, *by_given.by_query):
                getattr(by_given, table).values.copy_(getattr(loss, table).values)
            loss(now.detach(), slate, before=before.detach())
        torch.autograd.backward(runs * value)
        optimiser.step()

    return Stepper(step, optimiser)
