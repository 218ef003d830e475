"""The small problem of the theory experiments, with exact objective and gradient in float64.

Constants that are not tuned are defined here, tuned ones in :mod:`songrank_paper.theory.protocol`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from songrank.core.relevance import Relevance

QUERIES, ITEMS, FEATURES = 50, 80, 10
LABELS = (3.0, 2.0, 2.0, 1.0, 1.0, 1.0)
"""Labels of the relevant items of a query: six of 80."""
SCALE = 2.0
"""Bound of the scores, ±SCALE, which the theorems require."""
NOISE = 1.0
"""Standard deviation of the noise of the labels; that of the signal is 1."""
MARGIN = 1.0
K, EPSILON, TAU1, TAU2 = 10, 0.5, 0.3, 0.01
"""Constants of top-K NDCG and of L_q: ε, τ₁ and τ₂, centred on 0 as in the paper."""
SELECTOR_SCALE = 2.0
DECAY = 0.1
"""ρ of ρ/2 ‖w‖²: without it, ‖∇F‖ is small not only at solutions but also for large w, where tanh and f are flat."""


@dataclass(frozen=True)
class Problem:
    r"""A catalogue task with the scorer h_q(x_i; w) = 2 tanh(w·x_qi), w = 0 at first.

        F(w)   = mean_q Σ_i f(g_qi) + ρ/2 ‖w‖²,                                   f with rank offset 0, ρ = 0.1
        F_K(w) = mean_q Σ_i ψ(h_i − λ̂_q(w)) f_K(g_qi) + ρ/2 ‖w‖²
        g_qi   = 1/N Σ_j max(0, h_j − h_i + 1)²,                λ̂_q = argmin L_q,     ψ(x) = 1/(1 + e^{−2x})

    It does not use the losses of the package. Weights and results have a leading axis of runs.

    Args:
        features: [Q, N, d], x_qi.
        relevant: [Q, P], relevant items of each query.
        label: [P], their labels, the same for each query.

    >>> problem = make_problem()
    >>> problem.value(torch.zeros(1, 10, dtype=torch.float64)) > problem.value(0.3 * problem.teacher)
    tensor([True])
    """

    features: Tensor
    relevant: Tensor
    label: Tensor
    teacher: Tensor
    """[1, d]: the weights that generated the labels."""

    @cached_property
    def relevance(self) -> Relevance:
        """The problem in the form that samplers of the package use."""
        queries, count = self.relevant.shape
        query = torch.arange(queries).repeat_interleave(count)
        label = self.label.expand(queries, count).reshape(-1)
        return Relevance.from_pairs(query, self.relevant.reshape(-1), label, queries, self.features.shape[1])

    @property
    def pair_order(self) -> Tensor:
        """[Q, P]: the row of each relevant item in the memory of losses."""
        queries = torch.arange(self.relevant.shape[0]).unsqueeze(1).expand_as(self.relevant)
        return self.relevance.pair_index(queries.reshape(-1), self.relevant.reshape(-1)).view_as(self.relevant)

    @property
    def ideal(self) -> float:
        """Z of every query, for NDCG and, with at most K relevant items, for NDCG@K."""
        gain = (2.0**self.label - 1.0).sort(descending=True).values
        return float((gain / torch.log2(2.0 + torch.arange(len(gain), dtype=torch.float64))).sum())

    def scores(self, weights: Tensor) -> Tensor:
        """[R, Q, N]: h of every item for every query."""
        return SCALE * torch.tanh(torch.einsum("qnd,rd->rqn", self.features, weights))

    def ranks(self, scores: Tensor) -> Tensor:
        """[R, Q, P]: g of each relevant item."""
        own = scores.gather(2, self.relevant.expand(scores.shape[0], -1, -1))
        return (scores.unsqueeze(2) - own.unsqueeze(3) + MARGIN).relu().square().mean(3)

    def threshold(self, scores: Tensor) -> Tensor:
        """[R, Q]: λ̂, by Newton's method from the (K+1)-th largest score, with steps of at most 2τ₁."""
        scores = scores.detach()
        guess = scores.topk(K + 1, dim=-1).values[..., -1]
        for _ in range(200):
            slope = self.threshold_slope(guess, scores)
            if float(slope.abs().max()) < 1e-14:
                break
            guess = guess - (slope / self.curvature(guess, scores)).clamp(-2 * TAU1, 2 * TAU1)
        return guess

    def threshold_slope(self, threshold: Tensor, scores: Tensor) -> Tensor:
        """∇_λ L = (K + ε)/N + τ₂λ − mean_j σ((h_j − λ)/τ₁)."""
        above = torch.sigmoid((scores - threshold.unsqueeze(-1)) / TAU1).mean(-1)
        return (K + EPSILON) / scores.shape[-1] + TAU2 * threshold - above

    def curvature(self, threshold: Tensor, scores: Tensor) -> Tensor:
        """∇²_λ L = τ₂ + mean_j σ(1 − σ)/τ₁."""
        above = torch.sigmoid((scores - threshold.unsqueeze(-1)) / TAU1)
        return TAU2 + (above * (1.0 - above)).mean(-1) / TAU1

    def value(self, weights: Tensor, *, top_k: bool = False) -> Tensor:
        """[R]: F(w), or F_K(w)."""
        scores = self.scores(weights)
        gain = 2.0**self.label - 1.0
        terms = -gain / (self.ideal * torch.log2(scores.shape[-1] * self.ranks(scores) + 1.0))
        if top_k:
            exact = self.threshold(scores)
            # Another Newton step does not move λ̂, and has the derivative of the implicit function in the scores.
            exact = exact - self.threshold_slope(exact, scores) / self.curvature(exact, scores).detach()
            own = scores.gather(2, self.relevant.expand(scores.shape[0], -1, -1))
            terms = terms * torch.sigmoid(SELECTOR_SCALE * (own - exact.unsqueeze(2)))
        return terms.sum(2).mean(1) + 0.5 * DECAY * weights.square().sum(1)

    def gradient(self, weights: Tensor, *, top_k: bool = False) -> Tensor:
        """[R, d]: ∇F(w), or ∇F_K(w)."""
        weights = weights.detach().clone().requires_grad_()
        (found,) = torch.autograd.grad(self.value(weights, top_k=top_k).sum(), weights)
        return found

    def squared_gradient(self, weights: Tensor, *, top_k: bool = False) -> Tensor:
        """[R]: ‖∇F(w)‖²."""
        return self.gradient(weights, top_k=top_k).square().sum(1)


def make_problem(seed: int = 2022) -> Problem:
    """Normal features, the j-th with variance 1/j; the top six items by w*·x + noise are relevant, best label first.

    >>> make_problem().relevance
    Relevance(catalogue, 50 queries, 80 items, 300 pairs)
    """
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(QUERIES, ITEMS, FEATURES, generator=generator, dtype=torch.float64)
    features = features * torch.arange(1, FEATURES + 1, dtype=torch.float64).rsqrt()
    teacher = torch.randn(FEATURES, generator=generator, dtype=torch.float64)
    teacher = teacher / (features @ teacher).std()
    noise = NOISE * torch.randn(QUERIES, ITEMS, generator=generator, dtype=torch.float64)
    relevant = (features @ teacher + noise).topk(len(LABELS), dim=1).indices
    label = torch.tensor(LABELS, dtype=torch.float64)
    return Problem(features, relevant, label, teacher.unsqueeze(0))
