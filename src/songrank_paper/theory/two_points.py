r"""Forms of Faster SONG and Faster K-SONG: which u and s enter the two gradients of the momentum.

    m_t = (1 − γ_m)(m_{t−1} − G(w_{t−1})) + G(w_t),     G(w) = mean over the batch of Σ_i ψ f′(u) ∇ĝ_i + … (eq. 5)

Both gradients are computed on the slate of step t. They differ in u (and s, in the same way):

=============  =========  ==============================================  ==================  ====================
form           G(w_t)     G(w_{t−1})                                      difference at       without noise
                                                                          constant w
=============  =========  ==============================================  ==================  ====================
``printed``    u_t        u_{t−1}                                         biased              gradient descent
``lagged``     u_{t−1}    u_{t−1}                                         0                   misses f″ ∇g d g
``exact-lag``  u_{t−1}    u_{t−2}                                         0 in expectation    one step late
``corrected``  u_t        u_t − (ĝ(w_t) − ĝ(w_{t−1}))                     0                   gradient descent
=============  =========  ==============================================  ==================  ====================

With STORM's memory, the corrected u of G(w_{t−1}) is (1 − γ) u_{t−1} + γ ĝ(w_{t−1}): the update of u at w_{t−1}. λ is
the same in all forms: λ_t in G(w_t), λ_{t−1} in G(w_{t−1}), which do not depend on the slate.

The implementation uses plain float64 tensors and none of the losses of the package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.core.slate import Slate
from songrank.functional.threshold import weighted_threshold
from songrank_paper.theory.problem import DECAY, EPSILON, MARGIN, SCALE, SELECTOR_SCALE, TAU1, TAU2, K
from songrank_paper.theory.runs import Draws, Scorer

FORMS = ("printed", "lagged", "exact-lag", "corrected")
MEMORIES = ("storm", "msvr", "moving_average")


@dataclass(frozen=True)
class StepSizes:
    """Step sizes: η_t = (c₀/(c₀ + t))^{1/3} and γ_t = min(½, a η_t²/π), as in ``songrank.losses.schedules``.

    Args:
        a: update rate of the momentum at first; of u and s it is a/π.
        c0: c₀.
        threshold_rate: τ of λ_{t+1} = λ_t − τ η_t z_t.

    >>> StepSizes(a=0.1, c0=100.0).gamma(t=700)
    0.025
    """

    a: float
    c0: float = 100.0
    threshold_rate: float = 0.5

    def eta(self, t: int) -> float:
        """η_t."""
        return float((self.c0 / (self.c0 + t)) ** (1.0 / 3.0))

    def gamma(self, t: int, share: float = 1.0) -> float:
        """γ_t of rows that a step draws with probability ``share`` = π."""
        return min(0.5, round(self.a * self.eta(t) ** 2 / share, 15))


class TwoPoints:
    """A form during its runs: ``step(slate)`` is a step of all runs, which are those of ``scorer``.

    Args:
        scorer: the weights of all runs, updated by each step.
        draws: the source of the slates.
        rates: a learning rate per copy of the scorer.
        constants: other step sizes.
        form: one of ``FORMS``.
        memory: estimator of u, s and z: one of ``MEMORIES``.
        top_k: whether the objective is F_K.

    >>> from songrank_paper.theory.problem import make_problem
    >>> draws = Draws(make_problem(), 50, "all", seeds=(0,))
    >>> scorer = Scorer(draws.problem, copies=1, seeds=1)
    >>> run = TwoPoints(scorer, draws, [1.0], StepSizes(0.1), "corrected", top_k=False)
    >>> for slate in draws.steps(3):
    ...     exact = draws.problem.gradient(scorer.weights())
    ...     run.step(slate)
    >>> torch.allclose(run.momentum(), exact)                      # without noise it is gradient descent
    True
    """

    def __init__(
        self,
        scorer: Scorer,
        draws: Draws,
        rates: Sequence[float],
        constants: StepSizes,
        form: str,
        memory: str = "storm",
        *,
        top_k: bool,
    ) -> None:
        if form not in FORMS or memory not in MEMORIES:
            raise ValueError(f"form is {form!r} and memory {memory!r}; expected one of {FORMS} and of {MEMORIES}")
        self.problem, self.scorer, self.constants = draws.problem, scorer, constants
        self.form, self.memory, self.top_k, self.batch = form, memory, top_k, draws.batch
        runs = len(rates) * len(draws.seeds)
        self.rate = torch.tensor(rates, dtype=torch.float64).repeat_interleave(len(draws.seeds)).unsqueeze(1)
        self.weight = scorer.weights().detach().clone()
        self.last_weight = self.weight.clone()
        self.m = torch.zeros_like(self.weight)
        self.time = 0
        base = draws.problem.relevance
        self.queries, self.ideal = base.num_queries, draws.problem.ideal
        sizes = {"u": base.num_pairs, "s": base.num_queries, "z": base.num_queries, "threshold": base.num_queries}
        self.table = {name: torch.full((runs * size,), torch.nan, dtype=torch.float64) for name, size in sizes.items()}
        self.last_table = {name: values.clone() for name, values in self.table.items()}

    def momentum(self) -> Tensor:
        """[R, d]: m of each run."""
        return self.m

    def step(self, slate: Slate) -> None:
        """Update the memory, the momentum and the weights."""
        self.time += 1
        share = self.batch / self.queries
        gamma = self.constants.gamma(self.time, share)
        now, then = (_Point(self, weight, slate) for weight in (self.weight, self.last_weight))
        assert slate.pair is not None
        before = {name: values.clone() for name, values in self.table.items()}

        u = self._estimates("u", slate.pair, now.rank, then.rank, gamma, share, 1.0 / now.size)
        s = u  # not used without top K
        if self.top_k:
            levels = self._thresholds(slate, now)
            before["threshold"][slate.query] = levels[0]
            now.track(levels[0])
            then.track(levels[1])
            s = self._estimates("s", slate.query, now.bend, then.bend, gamma, share, TAU2)
            z = self._updated("z", slate.query, now.pull, then.pull, gamma, share)
            self.table["z"][slate.query] = z
            moved = levels[0] - self.constants.threshold_rate * self.constants.eta(self.time) * z
            self.table["threshold"][slate.query] = moved
        self.last_table = before

        gradients = [point.gradient(u[at], s[at]) for at, point in enumerate((now, then))]
        kept = 0.0 if self.time == 1 else 1.0 - self.constants.gamma(self.time)
        self.m = kept * (self.m - gradients[1]) + gradients[0]
        self.last_weight = self.weight
        self.weight = self.weight - self.rate * self.constants.eta(self.time) * self.m
        with torch.no_grad():
            for parameter, values in zip(
                self.scorer.runs, torch.split(self.weight, len(self.scorer.runs[0])), strict=True
            ):
                parameter.copy_(values)

    def _updated(self, name: str, rows: Tensor, now: Tensor, then: Tensor, gamma: float, share: float) -> Tensor:
        """The new values of these rows; the estimate at w_t on the first visit."""
        beta = {"storm": 1.0 - gamma, "moving_average": 0.0}.get(self.memory, msvr_beta(gamma, share))
        old = self.table[name][rows]
        return torch.where(old.isnan(), now, (1.0 - gamma) * old + gamma * now + beta * (now - then))

    def _estimates(
        self, name: str, rows: Tensor, now: Tensor, then: Tensor, gamma: float, share: float, floor: float
    ) -> tuple[Tensor, Tensor]:
        """Values of u or s for G(w_t) and for G(w_{t−1}), at least ``floor``; writes the new values."""
        old, older = self.table[name][rows], self.last_table[name][rows]
        new = self._updated(name, rows, now, then, gamma, share).clamp_min(floor)
        self.table[name][rows] = new
        if self.form == "corrected":
            return new, (new - (now - then)).clamp_min(floor)
        old_or_then = torch.where(old.isnan(), then, old)
        if self.form == "printed":
            return new, old_or_then
        if self.form == "lagged":
            return old_or_then, old_or_then
        return torch.where(old.isnan(), now, old), torch.where(older.isnan(), then, older)

    def _thresholds(self, slate: Slate, now: _Point) -> tuple[Tensor, Tensor]:
        """λ_t and λ_{t−1}; on the first visit, both are the weighted (K+1)-th largest score of the slate."""
        first = weighted_threshold(now.h.detach(), now.size * now.share, K, EPSILON)
        stored, older = self.table["threshold"][slate.query], self.last_table["threshold"][slate.query]
        current = torch.where(stored.isnan(), first, stored)
        return current, torch.where(older.isnan(), current, older)


class _Point:
    """Scores [B, L] of a slate at some weights, and the estimates from them."""

    def __init__(self, owner: TwoPoints, weight: Tensor, slate: Slate) -> None:
        self.weight = weight.detach().requires_grad_()
        self.batch, self.top_k = owner.batch, owner.top_k
        run = torch.div(slate.query, owner.queries, rounding_mode="floor")
        x = owner.problem.features[(slate.query % owner.queries).unsqueeze(1), slate.item]
        self.h = SCALE * torch.tanh((x * self.weight[run].unsqueeze(1)).sum(2))
        self.size = owner.problem.features.shape[1]
        relevant, label = slate.label > 0, slate.label.double()
        irrelevant = (self.size - relevant.sum(1, keepdim=True)) / (~relevant).sum(1, keepdim=True)
        self.share = torch.where(relevant, 1.0, irrelevant.double()) / self.size  # each item's share of the list
        self.own = self.h.gather(1, slate.column)
        gap = self.h.unsqueeze(1) - self.own.unsqueeze(2)
        self.estimate = ((gap + MARGIN).relu().square() * self.share.unsqueeze(1)).sum(2)
        self.rank = self.estimate.detach()
        self.gain = (2.0 ** label.gather(1, slate.column) - 1.0) / owner.ideal

    def track(self, threshold: Tensor) -> None:
        """Set λ; computes ∇_λL, ∇²_λL and the share of each item in ∇λ."""
        self.threshold = threshold
        above = torch.sigmoid((self.h.detach() - threshold.unsqueeze(1)) / TAU1)
        self.cross = self.share * above * (1.0 - above) / TAU1
        self.bend = TAU2 + self.cross.sum(1)
        self.pull = (K + EPSILON) / self.size + TAU2 * threshold - (self.share * above).sum(1)

    def gradient(self, u: Tensor, s: Tensor) -> Tensor:
        """[R, d]: G with the given u and s, and the gradient of the penalty."""
        place = self.size * u + 1.0
        value = -self.gain / torch.log2(place)
        slope = self.gain * self.size / (math.log(2.0) * torch.log2(place).square() * place)
        if not self.top_k:
            total = (slope * self.estimate).sum()
        else:
            psi = torch.sigmoid(SELECTOR_SCALE * (self.own.detach() - self.threshold.unsqueeze(1)))
            lead = SELECTOR_SCALE * psi * (1.0 - psi) * value
            threshold = (self.cross * self.h).sum(1) / s
            total = (psi * slope * self.estimate + lead * (self.own - threshold.unsqueeze(1))).sum()
        (found,) = torch.autograd.grad(total, self.weight)
        return found / self.batch + DECAY * self.weight.detach()


def msvr_beta(gamma: float, share: float) -> float:
    """β of MSVR, 1 − γ + (1 − π)/(π (1 − γ)).

    >>> msvr_beta(0.5, 1.0)
    0.5
    """
    return 1.0 - gamma + (1.0 - share) / (share * (1.0 - gamma))
