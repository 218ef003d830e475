"""(e) The lemmas of the paper's appendix as numerical checks: both sides of each inequality on the small problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from songrank_paper.experiment import Cell, Findings, Found, Table
from songrank_paper.theory.bounds import Bounds, find_bounds
from songrank_paper.theory.problem import DECAY, FEATURES, QUERIES, TAU1, TAU2, Problem, make_problem
from songrank_paper.theory.protocol import Protocol
from songrank_paper.theory.sampled_terms import (
    draw,
    estimate_gradient,
    everything,
    gaps,
    mean_over,
    pull,
    sampling_variance,
)
from songrank_paper.theory.trajectory import Steps, Trajectory, run_algorithm_2
from songrank_paper.theory.two_points import msvr_beta

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Check:
    """One inequality, left ≤ right, at many points.

    Args:
        left: values of the left side.
        right: values of the right side.
        constants: the constants on the right side, in words.

    >>> Check((1.0, 2.0), (4.0, 4.0), "C = 4").largest
    0.5
    """

    left: Sequence[float]
    right: Sequence[float]
    constants: str

    @property
    def largest(self) -> float:
        """The largest left/right: the factor of the right side for which the inequality still holds."""
        return max(a / b if b > 0.0 else float("inf") for a, b in zip(self.left, self.right, strict=True))

    @property
    def holds(self) -> bool:
        """Whether left ≤ right at all points, up to rounding."""
        return all(a <= b + _ROUNDING * (abs(a) + abs(b) + 1e-3) for a, b in zip(self.left, self.right, strict=True))


def _points(count: int, seed: int) -> Tensor:
    """[count, d]: normal weights of different sizes."""
    generator = torch.Generator().manual_seed(seed)
    size = torch.logspace(-1.5, 0.7, count, dtype=torch.float64).unsqueeze(1)
    return size * torch.randn(count, FEATURES, generator=generator, dtype=torch.float64)


def _neighbours(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pairs of weights at distances from 10⁻³ to 3."""
    here = _points(count, seed)
    away = _points(count, seed + 1)
    length = _mixed(torch.logspace(-3, 0.5, count, dtype=torch.float64)).unsqueeze(1)
    return here, here + length * away / away.norm(dim=1, keepdim=True)


def _mixed(values: Tensor) -> Tensor:
    """The values in an order that is neither ascending nor descending; their number is no multiple of 7."""
    return values[7 * torch.arange(len(values)) % len(values)]


def smoothness(problem: Problem, bounds: Bounds, *, top_k: bool, count: int = 200) -> Check:
    """‖∇F(w₁) − ∇F(w₂)‖ ≤ (L_F + ρ) ‖w₁ − w₂‖."""
    if not top_k:  # ψ = 1
        bounds = without_selection(bounds)
    here, there = _neighbours(count, 1)
    change = problem.gradient(here, top_k=top_k) - problem.gradient(there, top_k=top_k)
    constant = bounds.smoothness + DECAY
    right = constant * (here - there).norm(dim=1)
    return Check(change.norm(dim=1).tolist(), right.tolist(), f"L_F = {constant:.2g}")


def without_selection(bounds: Bounds) -> Bounds:
    """The constants of F, where ψ = 1."""
    return Bounds(**{**vars(bounds), "c_psi": 0.0, "l_psi": 0.0})


def largest_curvature(problem: Problem, *, top_k: bool, count: int = 60) -> float:
    """The largest |eigenvalue| of ∇²F at ``count`` points."""
    step, found = 1e-5, 0.0
    directions = torch.eye(FEATURES, dtype=torch.float64)
    for w in _points(count, 3):
        ends = [problem.gradient(w + sign * step * directions, top_k=top_k) for sign in (1.0, -1.0)]
        hessian = (ends[0] - ends[1]) / (2.0 * step)
        found = max(found, float(torch.linalg.eigvalsh(0.5 * (hessian + hessian.T)).abs().max()))
    return found


def descent(problem: Problem, constant: float, *, top_k: bool, rate: float | None = None, count: int = 60) -> Check:
    """F(w − ηm) ≤ F(w) + η/2 ‖∇F − m‖² − η/2 ‖∇F‖² − η/4 ‖m‖², with η = 1/(2 L_F) unless given."""
    eta = 1.0 / (2.0 * constant) if rate is None else rate
    generator = torch.Generator().manual_seed(5)
    w = _points(count, 3)
    exact = problem.gradient(w, top_k=top_k)
    noise = torch.randn(w.shape, generator=generator, dtype=torch.float64)
    m = exact + torch.logspace(-3, 0.0, count, dtype=torch.float64).unsqueeze(1) * noise
    squares = [value.square().sum(1) for value in (exact - m, exact, m)]
    fall = problem.value(w - eta * m, top_k=top_k) - problem.value(w, top_k=top_k)
    right = eta * (0.5 * squares[0] - 0.5 * squares[1] - 0.25 * squares[2])
    # Both sides can be negative: compared after adding the same positive number.
    base = eta * (squares[1] + squares[2])
    return Check((fall + base).tolist(), (right + base).tolist(), f"η = {eta:.2g}")


def threshold_lipschitz(problem: Problem, bounds: Bounds, count: int = 200) -> Check:
    """|λ_q(w₁) − λ_q(w₂)| ≤ C_λ ‖w₁ − w₂‖."""
    here, there = _neighbours(count, 7)
    moved = problem.threshold(problem.scores(here)) - problem.threshold(problem.scores(there))
    right = bounds.c_lambda * (here - there).norm(dim=1)
    return Check(moved.abs().amax(1).tolist(), right.tolist(), f"C_λ = {bounds.c_lambda:.2g}")


def tracking(found: Trajectory, steps: Steps, problem: Problem, which: str) -> Check:
    """Σ_{t ≤ T} E δ_t ≤ bound(T) for each T, with δ of u, λ or s."""
    n, b = QUERIES, steps.batch
    rate = {"u": steps.u, "s": steps.s, "λ": steps.threshold}[which]
    if which == "u":
        n, b = n * problem.relevant.shape[1], b * problem.relevant.shape[1]
    sums = {name: list(accumulate(found.error[name])) for name in (which, "λ")}
    moved = [0.0, *accumulate(found.moved)]  # Σ_{t < T}
    noise, first = found.variance[which], found.error[which][0]
    lipschitz = found.lipschitz
    right = []
    for t in range(1, len(found.error[which])):
        length = steps.weights**2 * n**3 / b**2
        if which == "u":
            bound = 2 * n / (b * rate) * first + 8 * n * rate * noise * t
            bound += 8 * length * lipschitz["g"] ** 2 / rate**2 * moved[t]
        elif which == "λ":
            mu = found.secant[0]
            bound = 2 * n / (b * rate * mu) * first + 4 * n * rate * t * noise / mu
            bound += 8 * length * lipschitz["λ"] ** 2 / (rate * mu) ** 2 * moved[t]
        else:
            bound = (
                4 * n / (b * rate) * first + 32 * lipschitz["bend"] ** 2 * sums["λ"][t - 1] + 8 * n * rate * t * noise
            )
            turned = lipschitz["bend"] ** 2 * (1 + lipschitz["λ"] ** 2)
            bound += 32 * length * turned / rate**2 * moved[t]
        right.append(bound)
    constants = {
        "u": f"C_g = {lipschitz['g']:.2g}, σ² = {noise:.1g}",
        "λ": f"μ_L = {found.secant[0]:.2g}, C_λ = {lipschitz['λ']:.2g}, σ² = {noise:.1g}",
        "s": f"L_Lλλ = {lipschitz['bend']:.2g}, C_λ = {lipschitz['λ']:.2g}, σ² = {noise:.1g}",
    }
    return Check(sums[which][1:], right, constants[which])


@dataclass(frozen=True)
class _Perturbed:
    """u, λ and s with errors of different sizes, at random weights; one run per size."""

    w: Tensor
    scores: Tensor
    threshold_at: Tensor
    u: Tensor
    threshold: Tensor
    s: Tensor

    @classmethod
    def draw(cls, problem: Problem, count: int, seed: int) -> _Perturbed:
        generator = torch.Generator().manual_seed(seed)
        w = 0.3 * torch.randn(count, FEATURES, generator=generator, dtype=torch.float64)
        scores = problem.scores(w)
        exact, size = problem.threshold(scores), torch.logspace(-4, 0, count, dtype=torch.float64).view(-1, 1)
        threshold = exact + 0.5 * size * torch.randn(exact.shape, generator=generator, dtype=torch.float64)
        rank = problem.ranks(scores)
        noise = torch.randn(rank.shape, generator=generator, dtype=torch.float64)
        u = (rank * (size.unsqueeze(2) * noise).exp()).clamp_min(1.0 / scores.shape[2])
        curve = problem.curvature(threshold, scores)
        s = (curve * (size * torch.randn(curve.shape, generator=generator, dtype=torch.float64)).exp()).clamp_min(TAU2)
        return cls(w, scores, exact, u, threshold, s)


def decomposition(problem: Problem, bounds: Bounds, count: int = 24) -> Check:
    """‖∇F − m‖² ≤ 2‖mean G_i − m‖² + (4/n) (C₀ ‖λ̂ − λ‖² + C₁ ‖u − g‖² + C₂ ‖s − ∇²L‖²), F without penalty."""
    at = _Perturbed.draw(problem, count, 11)
    exact = problem.gradient(at.w, top_k=True) - DECAY * at.w
    estimate = estimate_gradient(problem, at.w, everything(problem, count), at.u, at.threshold, at.s)
    pairs = problem.relevant.shape[1]
    errors = (
        pairs * (at.threshold_at - at.threshold).square().sum(1),
        (at.u - problem.ranks(at.scores)).square().sum((1, 2)),
        pairs * (at.s - problem.curvature(at.threshold, at.scores)).square().sum(1),
    )
    n = QUERIES * pairs
    given = bounds.decomposition
    right = sum((4.0 * c / n * e for c, e in zip(given, errors, strict=True)), torch.zeros(count, dtype=torch.float64))
    constants = ", ".join(f"C{index} = {c:.1g}" for index, c in zip("₀₁₂", given, strict=True))
    return Check((exact - estimate).square().sum(1).tolist(), right.tolist(), constants)  # m = mean G_i


def msvr(problem: Problem, *, change: bool, gamma: float = 0.2, count: int = 24) -> Check:
    """The two inequalities of the MSVR lemma for u, whose expectations over queries and items are exact.

    E‖d_t − f(w_t)‖² ≤ (1 − γB/n) ‖d_{t−1} − f(w_{t−1})‖² + (8n/B) Σ E(f̂(w_t) − f̂(w_{t−1}))² + 2Bγ²σ², and with
    ``change`` E‖d_t − d_{t−1}‖² ≤ 2Bγ²σ² + (4Bγ²/n) ‖f(w_{t−1}) − d_{t−1}‖² + (9n/B) Σ E(f̂(w_t) − f̂(w_{t−1}))².
    """
    steps = Steps()
    pairs = problem.relevant.shape[1]
    share, n, b = steps.batch / QUERIES, QUERIES * pairs, steps.batch * pairs
    at = _Perturbed.draw(problem, count, 13)
    step = _mixed(torch.logspace(0, -4, count, dtype=torch.float64)).unsqueeze(1)
    after = problem.scores(at.w + 0.3 * step * _points(count, 17))
    now, before = gaps(problem, after), gaps(problem, at.scores)
    beta = msvr_beta(gamma, share)

    def expected_square(values: Tensor, offset: Tensor) -> Tensor:
        """Σ E (estimate of values + offset)²."""
        return ((values.mean(3) + offset).square() + sampling_variance(problem, values, steps.irrelevant)).sum((1, 2))

    drawn = gamma * now + beta * (now - before)
    error = at.u - before.mean(3)
    jump = expected_square(now - before, torch.zeros_like(error))
    noise = sampling_variance(problem, now, steps.irrelevant).amax((1, 2))
    noise = torch.maximum(noise, sampling_variance(problem, before, steps.irrelevant).amax((1, 2)))
    if change:
        left = share * expected_square(drawn, -gamma * at.u)
        right = 2 * b * gamma**2 * noise + 4 * b * gamma**2 / n * error.square().sum((1, 2)) + 9 * n / b * jump
    else:
        left = share * expected_square(drawn, (1.0 - gamma) * at.u - now.mean(3))
        left = left + (1.0 - share) * (at.u - now.mean(3)).square().sum((1, 2))
        right = (1 - gamma * b / n) * error.square().sum((1, 2)) + 8 * n / b * jump + 2 * b * gamma**2 * noise
    return Check(left.tolist(), right.tolist(), f"β = {beta:.3g}, σ² ≤ {float(noise.max()):.1g}")


def faster_threshold(problem: Problem, *, mu: float = TAU2, tau: float = 0.5, count: int = 24) -> Check:
    """The recursion of λ in Faster K-SONG; the expectation over queries is exact.

    The last step of the proof doubles a negative term without a reason. The statement is checked as printed.
    """
    steps, eta = Steps(), 0.5
    generator = torch.Generator().manual_seed(19)
    share, at = steps.batch / QUERIES, _Perturbed.draw(problem, count, 23)
    slope = pull(at.scores, at.threshold, everything(problem, count))
    z = slope + 0.1 * torch.randn(slope.shape, generator=generator, dtype=torch.float64) * slope.abs()
    moved = at.threshold - tau * eta * z
    after = at.w + torch.logspace(-6, -2, count, dtype=torch.float64).view(-1, 1) * _points(count, 29)
    goal = problem.threshold(problem.scores(after))
    largest = TAU2 + 1.0 / (4.0 * TAU1)
    slopes = (goal - at.threshold_at).abs().amax(1) / (after - at.w).norm(dim=1)
    left = (share * (moved - goal).square() + (1 - share) * (at.threshold - goal).square()).sum(1)
    rate = tau * eta * mu * share
    right = (1 - rate / 4) * (at.threshold - at.threshold_at).square().sum(1)
    right = right + 8 * eta * tau * share / mu * (slope - z).square().sum(1)
    right = right - 3.0 * tau * share / eta * (1 / tau - largest) * share * (moved - at.threshold).square().sum(1)
    right = right + 8 * QUERIES / rate * slopes.square() * (after - at.w).square().sum(1)
    base = (at.threshold - at.threshold_at).square().sum(1)
    return Check((left + base).tolist(), (right + base).tolist(), f"μ_L = {mu:g}, L_L = {largest:.2g}")


def momentum(problem: Problem, bounds: Bounds, *, runs: int = 16, count: int = 40) -> Check:
    """The recursion of E‖m_t − mean G_i(w_t)‖² in Faster SONG as printed, with MSVR, along slow gradient descent."""
    steps, gamma, rate = Steps(), 0.2, 0.1
    generator = torch.Generator().manual_seed(31)
    share, n = steps.batch / QUERIES, QUERIES * problem.relevant.shape[1]
    full = everything(problem, runs)
    w = torch.zeros(runs, FEATURES, dtype=torch.float64)
    none, one = torch.full((runs, QUERIES), -1e3, dtype=torch.float64), torch.ones(runs, QUERIES, dtype=torch.float64)
    last_u = u = problem.ranks(problem.scores(w))
    last_w, m = w, estimate_gradient(problem, w, full, u, none, one)
    u_factor, w_factor, _, _ = without_selection(bounds).momentum
    errors, noise, right = [0.0], 0.0, []
    for _ in range(count):
        sample = draw(problem, runs, steps.batch, steps.irrelevant, generator)
        ranks = [mean_over(gaps(problem, problem.scores(at)), sample) for at in (w, last_w)]
        new = (1 - gamma) * u + gamma * ranks[0] + msvr_beta(gamma, share) * (ranks[0] - ranks[1])
        last_u, u = u, torch.where(sample.drawn.unsqueeze(2), new, u).clamp_min(1.0 / full.share.shape[2])
        sampled, before = (
            estimate_gradient(problem, at, sample, value, none, one) for at, value in ((w, u), (last_w, last_u))
        )
        m = (1 - rate) * (m - before) + sampled
        exact = estimate_gradient(problem, w, full, u, none, one)
        noise = max(noise, float((sampled - exact).square().sum(1).mean()))
        change = 2 * u_factor / n * float((u - last_u).square().sum((1, 2)).mean())
        change += 2 * w_factor * float((w - last_w).square().sum(1).mean())
        right.append((1 - rate) * errors[-1] + change)
        errors.append(float((m - exact).square().sum(1).mean()))
        last_w, w = w, w - 0.05 * problem.gradient(w)
    return Check(errors[1:], [value + 2 * rate**2 * noise for value in right], f"C₃ = {u_factor:.1g}")


def unbiased_change(problem: Problem, *, runs: int = 100, gamma: float = 0.2, independent: bool = False) -> Check:
    """‖E D‖ ≤ 4 standard errors, for D = the change of G on the batch minus the change of the mean of all G_i.

    The proof of the recursion of m uses E D = 0. In the printed form u_t depends on the batch, so it does not follow;
    with ``independent``, u_t comes from another batch, and it does.
    """
    steps = Steps()
    generator = torch.Generator().manual_seed(37)
    w, full = (0.2 * problem.teacher).expand(runs, -1), everything(problem, runs)
    none, one = torch.full((runs, QUERIES), -1e3, dtype=torch.float64), torch.ones(runs, QUERIES, dtype=torch.float64)
    values = gaps(problem, problem.scores(w[:1]))
    before = 1.5 * values.mean(3).expand(runs, -1, -1)  # u_{t−1} is behind, as it is while w moves
    sample, other = (draw(problem, runs, steps.batch, steps.irrelevant, generator) for _ in range(2))
    source = other if independent else sample
    new = (1 - gamma) * before + gamma * mean_over(values, source)  # w is constant
    new = torch.where(source.drawn.unsqueeze(2), new, before)
    changes = [
        estimate_gradient(problem, w, at, new, none, one) - estimate_gradient(problem, w, at, before, none, one)
        for at in (sample, full)
    ]
    off = changes[0] - changes[1]
    error = (off.var(0).sum() / runs).sqrt()
    return Check([float(off.mean(0).norm())], [4.0 * float(error)], f"{runs} draws")


def all_checks(problem: Problem, *, runs: int, count: int) -> dict[str, Check]:
    """Every check by name."""
    bounds, steps = find_bounds(problem), Steps()
    found = run_algorithm_2(problem, steps, runs=runs, count=count)
    curvature = largest_curvature(problem, top_k=True)
    made: dict[str, Callable[[], Check]] = {
        "F is smooth": lambda: smoothness(problem, bounds, top_k=False),
        "F_K is smooth": lambda: smoothness(problem, bounds, top_k=True),
        "descent, L_F of the proof": lambda: descent(problem, bounds.smoothness + DECAY, top_k=True),
        "descent, largest curvature found": lambda: descent(problem, curvature, top_k=True),
        "λ is Lipschitz": lambda: threshold_lipschitz(problem, bounds),
        "Σ δ_λ": lambda: tracking(found, steps, problem, "λ"),
        "Σ δ_g": lambda: tracking(found, steps, problem, "u"),
        "Σ δ_s": lambda: tracking(found, steps, problem, "s"),
        "faster: ∇F − m in parts": lambda: decomposition(problem, bounds),
        "faster: recursion of m": lambda: momentum(problem, bounds),
        "faster: unbiased change of G, in the proof": lambda: unbiased_change(problem),
        "faster: recursion of λ": lambda: faster_threshold(problem),
        "MSVR: error": lambda: msvr(problem, change=False),
        "MSVR: change": lambda: msvr(problem, change=True),
    }
    return {name: make() for name, make in made.items()}


def check(folder: Path, *, runs: int, count: int) -> dict[str, Any]:
    """All checks, each with the number of points, the largest left/right and the constants."""
    torch.set_num_threads(1)
    return {
        name: {
            "points": len(one.left),
            "largest": one.largest,
            "holds": one.holds,
            "constants": one.constants,
        }
        for name, one in all_checks(make_problem(), runs=runs, count=count).items()
    }


def cells(protocol: Protocol, found: Found) -> list[Cell]:
    """One cell."""
    options = {"runs": protocol.lemma_runs, "count": protocol.lemma_steps}
    return [Cell("lemmas", "songrank_paper.theory.lemmas:check", options)]


def show(protocol: Protocol, found: Found) -> Findings:
    """A row per lemma."""
    results = found[cells(protocol, found)[0].key]
    rows: list[list[str | float | int | None]] = [
        [name, one["points"], "holds" if one["holds"] else "violated", f"{one['largest']:.1e}", one["constants"]]
        for name, one in results.items()
    ]
    broken = [name for name, one in results.items() if not one["holds"]]
    said = "no inequality is violated" if not broken else "violated: " + ", ".join(broken)
    columns = ["lemma", "points", "result", "largest left/right", "constants"]
    table = Table("Lemmas of the appendix: left side ≤ right side", columns, rows)
    return Findings([f"Lemmas of the appendix: {said}."], {"lemmas": table})
