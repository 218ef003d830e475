r"""The threshold problem of K-SONG: λ_q, the (K+1)-th largest score, as the minimiser of a convex function.

Section 5 of the paper, with weights w_j that sum to 1 over the list (1/N each for a full list):

    L_q(λ) = (K + ε)/N · λ + τ₂/2 · (λ − c)² + Σ_j w_j φ(h_j − λ),      φ(x) = τ₁ ln(1 + e^{x/τ₁})

The appendix replaces φ by the smoothed hinge κ: 0; x²/(2τ₁) for 0 < x ≤ τ₁; x − τ₁/2. The paper's centre c is 0. A
constant added to all scores and to c is also added to λ̂.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.core.checks import check_choice, check_int, check_number

_TIE = 1e-6
"""Relative difference of a cumulative count from K + ε that is attributed to rounding of float32 counts."""


@dataclass(frozen=True)
class ThresholdProblem:
    """The constants of L_q; methods work on the last axis of ``scores`` and ``weights``.

    Args:
        k: K, number of items to select.
        epsilon: ε in (0, 1); for any value the unsmoothed minimiser is the (K+1)-th largest score (Lemma 2).
        tau1: τ₁ > 0, the temperature of φ.
        tau2: τ₂ ≥ 0, strong convexity.
        smoothing: ``"softplus"`` for φ, ``"hinge"`` for κ.

    >>> scores = torch.tensor([3.0, 2.0, 1.0, 0.0])
    >>> problem = ThresholdProblem(k=1, tau1=0.1)
    >>> problem.gradient(torch.tensor(2.0), scores, torch.full((4,), 0.25), torch.tensor(4.0)).abs() < 1e-3
    tensor(True)
    """

    k: int
    epsilon: float = 0.5
    tau1: float = 0.1
    tau2: float = 1e-4
    smoothing: str = "softplus"

    def __post_init__(self) -> None:
        check_int("k", self.k)
        check_number("epsilon", self.epsilon, 0.0, 1.0, low_open=True, high_open=True)
        check_number("tau1", self.tau1, 0.0, low_open=True)
        check_number("tau2", self.tau2, 0.0)
        check_choice("smoothing", self.smoothing, ("softplus", "hinge"))

    def objective(
        self, threshold: Tensor, scores: Tensor, weights: Tensor, list_size: Tensor, centre: Tensor | float = 0.0
    ) -> Tensor:
        """L_q(λ)."""
        x = scores - threshold.unsqueeze(-1)
        if self.smoothing == "softplus":
            phi = self.tau1 * torch.nn.functional.softplus(x / self.tau1, threshold=50.0)
        else:
            bounded = x.clamp(0.0, self.tau1)
            phi = bounded * bounded / (2.0 * self.tau1) + (x - self.tau1).clamp_min(0.0)
        pull = 0.5 * self.tau2 * (threshold - centre).square()
        return (self.k + self.epsilon) / list_size * threshold + pull + (weights * phi).sum(-1)

    def gradient(
        self, threshold: Tensor, scores: Tensor, weights: Tensor, list_size: Tensor, centre: Tensor | float = 0.0
    ) -> Tensor:
        """∇_λ L_q = (K + ε)/N + τ₂(λ − c) − Σ_j w_j φ′(h_j − λ)."""
        return self.derivatives(threshold, scores, weights, list_size, centre)[0]

    def curvature(self, threshold: Tensor, scores: Tensor, weights: Tensor) -> Tensor:
        """∇²_λ L_q = τ₂ + Σ_j w_j φ″(h_j − λ)."""
        return self.tau2 + self.cross_curvature(threshold, scores, weights).sum(-1)

    def cross_curvature(self, threshold: Tensor, scores: Tensor, weights: Tensor) -> Tensor:
        """−∇²_{λ,h_j} L_q = w_j φ″(h_j − λ) for each item j."""
        return self.derivatives(threshold, scores, weights, torch.ones_like(threshold))[1]

    def derivatives(
        self, threshold: Tensor, scores: Tensor, weights: Tensor, list_size: Tensor, centre: Tensor | float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """(∇_λ L_q, −∇²_{λ,h_j} L_q), computed together."""
        x = (scores - threshold.unsqueeze(-1)) / self.tau1
        if self.smoothing == "softplus":
            slope = torch.sigmoid(x)
            bend = torch.addcmul(slope, slope, slope, value=-1.0)
        else:
            slope = x.clamp(0.0, 1.0)
            bend = ((x > 0) & (x <= 1)).to(x.dtype)
        level = (self.k + self.epsilon) / list_size + self.tau2 * (threshold - centre)
        return level - (weights * slope).sum(-1), weights * bend / self.tau1

    def directional(
        self, threshold: Tensor, scores: Tensor, weights: Tensor, threshold_change: Tensor, score_change: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(∇_λ L_q, ∇²_λ L_q) differentiated along (dλ, dh), for a fixed centre; κ‴ is 0 except at its two kinks.

        τ₂ dλ − Σ_j w_j φ″(h_j − λ)(dh_j − dλ), and Σ_j w_j φ‴(h_j − λ)(dh_j − dλ).
        """
        _, cross = self.derivatives(threshold, scores, weights, torch.ones_like(threshold))
        bent = cross * (score_change - threshold_change.unsqueeze(-1))
        slope_change = self.tau2 * threshold_change - bent.sum(-1)
        if self.smoothing == "hinge":
            return slope_change, torch.zeros_like(slope_change)
        turn = 1.0 - 2.0 * torch.sigmoid((scores - threshold.unsqueeze(-1)) / self.tau1)
        return slope_change, (bent * turn).sum(-1) / self.tau1


def exact_threshold(scores: Tensor, k: int, *, mask: Tensor | None = None) -> Tensor:
    """λ_q of Lemma 2: the (K+1)-th largest score on the last axis, −∞ for a list of at most K items.

    >>> exact_threshold(torch.tensor([5.0, 1.0, 3.0]), k=1)
    tensor(3.)
    """
    check_int("k", k)
    if mask is not None:
        scores = torch.where(mask, scores, torch.full_like(scores, -torch.inf))
    if k >= scores.shape[-1]:
        return torch.full_like(scores[..., 0], -torch.inf)
    return scores.topk(k + 1, dim=-1).values[..., -1]


def weighted_threshold(scores: Tensor, counts: Tensor, k: int, epsilon: float = 0.5) -> Tensor:
    """The (K+1)-th largest score with item j repeated ``counts[j]`` times; the smallest if the counts sum to less.

    The result is the largest score h_i with Σ_j counts[j] 𝕀(h_j ≥ h_i) ≥ K + ε, which minimises the unsmoothed L_q over
    the weighted sample. Where the sum equals K + ε, L_q is constant between h_i and the next score; h_i is returned.
    Sums less than 10⁻⁶ (K + ε) below K + ε count as equal, so rounding and the order of the items have no effect.

    >>> weighted_threshold(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1.0, 5.0, 5.0]), k=4)
    tensor(2.)
    >>> weighted_threshold(torch.tensor([3.0, 2.0, 1.0]), torch.tensor([1.5, 1.0, 1.0]), k=2)       # 1.5 + 1 = K + ½
    tensor(2.)
    """
    keys = torch.where(counts > 0, scores, -torch.inf)
    ordered, order = keys.topk(_depth(counts, k + epsilon), dim=-1)
    total = counts.gather(-1, order).cumsum(-1, dtype=torch.float64)
    before = (total < (k + epsilon) * (1.0 - _TIE)).sum(-1)
    last = (counts > 0).sum(-1) - 1
    place = torch.minimum(before, last.clamp_min(0)).clamp_max(order.shape[-1] - 1)
    return ordered.gather(-1, place.unsqueeze(-1)).squeeze(-1)


def _depth(counts: Tensor, wanted: float) -> int:
    """Number of largest scores needed to count up to ``wanted``; all except on a CPU, where reading counts is cheap.

    Once the items with less than the row's largest count are used up, each further one adds that count.
    """
    size = counts.shape[-1]
    if counts.device.type != "cpu" or torch.compiler.is_compiling() or counts.numel() == 0:
        return size
    most = counts.amax(-1, keepdim=True)
    needed = (counts < most).sum(-1) + torch.ceil(wanted / most.squeeze(-1).clamp_min(1e-9)) + 1
    return int(needed.amax().clamp(max=size))


def smooth_threshold(
    scores: Tensor,
    problem: ThresholdProblem,
    *,
    weights: Tensor | None = None,
    list_size: Tensor | None = None,
    centre: Tensor | float = 0.0,
    iterations: int = 200,
) -> Tensor:
    """λ̂_q = argmin L_q, by bisection on its increasing derivative: exact up to rounding, O(L) per iteration.

    Args:
        scores: [..., L].
        problem: the constants of L_q.
        weights: [..., L], summing to 1; uniform by default.
        list_size: N_q; L by default.
        centre: c of the τ₂ term.
        iterations: number of bisections.

    >>> scores = torch.tensor([5.0, 4.0, 3.0, 2.0], dtype=torch.float64)
    >>> smooth_threshold(scores, ThresholdProblem(k=1, tau1=0.01, tau2=0.0)).round(decimals=4)
    tensor(4., dtype=torch.float64)
    """
    size = torch.full_like(scores[..., 0], scores.shape[-1]) if list_size is None else list_size
    if weights is None:
        weights = torch.full_like(scores, 1.0 / scores.shape[-1])
    middle = torch.as_tensor(centre, dtype=scores.dtype, device=scores.device).expand(scores.shape[:-1])
    pad = 1.0 + problem.tau1 * 800.0
    present = weights > 0
    low = torch.minimum(torch.where(present, scores, torch.inf).amin(-1), middle) - pad
    if problem.tau2 > 0:  # where K is the whole list, only τ₂ bounds the threshold
        low = torch.minimum(low, middle - (problem.k + problem.epsilon) / (size * problem.tau2) - pad)
    high = torch.maximum(torch.where(present, scores, -torch.inf).amax(-1), middle) + pad
    for _ in range(iterations):
        guess = 0.5 * (low + high)
        rising = problem.gradient(guess, scores, weights, size, middle) > 0
        low, high = torch.where(rising, low, guess), torch.where(rising, guess, high)
    return 0.5 * (low + high)
