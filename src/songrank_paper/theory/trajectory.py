"""Runs of Algorithm 2 as printed, with the errors and constants that the lemmas of the paper's appendix speak of."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from songrank_paper.theory.problem import Problem
from songrank_paper.theory.sampled_terms import (
    above,
    bend,
    bend_of,
    draw,
    estimate_gradient,
    everything,
    gaps,
    mean_over,
    pull,
    sampling_variance,
)


@dataclass(frozen=True)
class Steps:
    """Step sizes of Algorithm 2: η₀ of λ, γ₀ of u, γ₀′ of s, γ₁ = 1 − β₁ of m, η₁ of w; |B₁| and |B₂|.

    Args:
        threshold: η₀.
        u: γ₀.
        s: γ₀′.
        momentum: γ₁.
        weights: η₁.
        batch: queries per step.
        irrelevant: irrelevant items per query.
    """

    threshold: float = 0.1
    u: float = 0.3
    s: float = 0.3
    momentum: float = 0.1
    weights: float = 0.05
    batch: int = 5
    irrelevant: int = 8


@dataclass
class Trajectory:
    """Per step t = 0 … T, as means over runs; and constants of the assumptions, the best that hold on the runs.

    ``error`` has E δ of ``"u"``, ``"λ"`` and ``"s"``, sums over pairs or queries; ``moved`` E ‖m‖² per update.
    ``variance`` is σ² of ĝ, ∇_λL and ∇²_λL. ``secant`` has μ_L and L_L of ∇_λL; ``lipschitz`` C_g, C_λ and L_{Lλλ}.
    """

    error: dict[str, list[float]] = field(default_factory=lambda: {"u": [], "λ": [], "s": []})
    moved: list[float] = field(default_factory=list)
    variance: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("u", "λ", "s"), 0.0))
    secant: tuple[float, float] = (float("inf"), 0.0)
    lipschitz: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("g", "λ", "bend"), 0.0))


def run_algorithm_2(problem: Problem, steps: Steps, *, runs: int, count: int, seed: int = 0) -> Trajectory:
    """``runs`` runs of ``count`` updates, from u, λ and s that are 1.5, 0.3 and 1.2 off.

    >>> from songrank_paper.theory.problem import make_problem
    >>> found = run_algorithm_2(make_problem(), Steps(), runs=2, count=3)
    >>> len(found.error["u"]), len(found.moved)
    (4, 3)
    """
    generator, found = torch.Generator().manual_seed(seed), Trajectory()
    full = everything(problem, runs)
    w = torch.zeros(runs, problem.features.shape[2], dtype=torch.float64)
    m = torch.zeros_like(w)
    state = _State.at(problem, w)
    u, threshold, s = 1.5 * state.rank, state.threshold + 0.3, 1.2 * state.bend
    for t in range(count + 1):
        found.error["u"].append(_sum(u - state.rank))
        found.error["λ"].append(_sum(threshold - state.threshold))
        found.error["s"].append(_sum(s - state.bend))
        if t == count:
            return found
        _measure(problem, found, state, threshold, steps.irrelevant, pull(state.scores, threshold, full))
        sample = draw(problem, runs, steps.batch, steps.irrelevant, generator)
        rank = mean_over(gaps(problem, state.scores), sample)
        slope, curve = pull(state.scores, threshold, sample), bend(state.scores, threshold, sample)
        m = (1.0 - steps.momentum) * m + steps.momentum * estimate_gradient(problem, w, sample, u, threshold, s)
        u = torch.where(sample.drawn.unsqueeze(2), (1.0 - steps.u) * u + steps.u * rank, u)
        s = torch.where(sample.drawn, (1.0 - steps.s) * s + steps.s * curve, s)
        threshold = torch.where(sample.drawn, threshold - steps.threshold * slope, threshold)
        w = w - steps.weights * m
        found.moved.append(float(m.square().sum(1).mean()))
        after = _State.at(problem, w)
        _compare(found, state, after, steps.weights * m.norm(dim=1))
        state = after
    raise AssertionError


@dataclass(frozen=True)
class _State:
    """Exact quantities at w."""

    scores: Tensor
    rank: Tensor
    threshold: Tensor
    bend: Tensor

    @classmethod
    def at(cls, problem: Problem, weights: Tensor) -> _State:
        scores = problem.scores(weights)
        threshold = problem.threshold(scores)
        return cls(scores, problem.ranks(scores), threshold, problem.curvature(threshold, scores))


def _sum(error: Tensor) -> float:
    return float(error.square().flatten(1).sum(1).mean())


def _measure(
    problem: Problem, found: Trajectory, state: _State, threshold: Tensor, irrelevant: int, slope: Tensor
) -> None:
    """Update σ², μ_L, L_L and the part of L_{Lλλ} in λ."""
    parts = {
        "u": gaps(problem, state.scores),
        "λ": above(state.scores, threshold),
        "s": bend_of(state.scores, threshold),
    }
    for name, values in parts.items():
        found.variance[name] = max(found.variance[name], float(sampling_variance(problem, values, irrelevant).max()))
    off = threshold - state.threshold
    far = off.abs() > 1e-6
    if bool(far.any()):
        secant = (slope / off)[far]  # ∇_λL is 0 at λ̂
        found.secant = min(found.secant[0], float(secant.min())), max(found.secant[1], float(secant.max()))
        turned = ((problem.curvature(threshold, state.scores) - state.bend) / off)[far].abs()
        found.lipschitz["bend"] = max(found.lipschitz["bend"], float(turned.max()))


def _compare(found: Trajectory, before: _State, after: _State, distance: Tensor) -> None:
    """Update C_g, C_λ and the part of L_{Lλλ} along the runs."""
    far = distance > 1e-9
    if not bool(far.any()):
        return
    step = distance[far]
    rank = (after.rank - before.rank)[far].flatten(1).abs().amax(1) / step
    moved = (after.threshold - before.threshold)[far]
    both = (step.square().unsqueeze(1) + moved.square()).sqrt()
    turned = ((after.bend - before.bend)[far].abs() / both).amax(1)
    for name, value in {"g": rank, "λ": moved.abs().amax(1) / step, "bend": turned}.items():
        found.lipschitz[name] = max(found.lipschitz[name], float(value.max()))
