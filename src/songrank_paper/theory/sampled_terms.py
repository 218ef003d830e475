"""Estimates of g, ∇_λL, ∇²_λL and G from samples of the small problem's lists, with their exact variances."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from songrank_paper.theory.problem import EPSILON, MARGIN, SELECTOR_SCALE, TAU1, TAU2, K, Problem


@dataclass(frozen=True)
class Sample:
    """The queries of a step and the share of the list that each sampled item represents.

    Args:
        drawn: [R, Q], whether a query is in the batch.
        share: [R, Q, N], 1/N for relevant items, N⁻/(N m⁻) for sampled irrelevant ones, 0 for others.
    """

    drawn: Tensor
    share: Tensor


def draw(problem: Problem, runs: int, batch: int, irrelevant: int, generator: torch.Generator) -> Sample:
    """``batch`` queries for each run, and ``irrelevant`` items of every query, uniformly without replacement.

    >>> from songrank_paper.theory.problem import make_problem
    >>> sample = draw(make_problem(), 2, 5, 8, torch.Generator().manual_seed(0))
    >>> sample.drawn.sum(1), sample.share.sum(2).min().round(decimals=9)
    (tensor([5, 5]), tensor(1., dtype=torch.float64))
    """
    queries, size, _ = problem.features.shape
    tickets = torch.rand(runs, queries, generator=generator, dtype=torch.float64)
    drawn = torch.zeros(runs, queries, dtype=torch.bool).scatter_(1, tickets.topk(batch, 1).indices, True)
    tickets = torch.rand(runs, queries, size, generator=generator, dtype=torch.float64)
    relevant = problem.relevant.expand(runs, -1, -1)
    chosen = tickets.scatter(2, relevant, -1.0).topk(irrelevant, 2).indices
    each = (size - problem.relevant.shape[1]) / irrelevant
    share = torch.zeros_like(tickets).scatter_(2, chosen, each).scatter_(2, relevant, 1.0)
    return Sample(drawn, share / size)


def everything(problem: Problem, runs: int) -> Sample:
    """All queries with whole lists."""
    queries, size, _ = problem.features.shape
    share = torch.full((runs, queries, size), 1.0 / size, dtype=torch.float64)
    return Sample(torch.ones(runs, queries, dtype=torch.bool), share)


def gaps(problem: Problem, scores: Tensor) -> Tensor:
    """[R, Q, P, N]: ℓ(h_j − h_i)."""
    own = scores.gather(2, problem.relevant.expand(scores.shape[0], -1, -1))
    return (scores.unsqueeze(2) - own.unsqueeze(3) + MARGIN).relu().square()


def mean_over(values: Tensor, sample: Sample) -> Tensor:
    """The estimate of the mean of values [R, Q, N] or [R, Q, P, N] over the list."""
    share = sample.share if values.dim() == 3 else sample.share.unsqueeze(2)
    return (values * share).sum(-1)


def sampling_variance(problem: Problem, values: Tensor, irrelevant: int) -> Tensor:
    """The exact variance of :func:`mean_over` with all relevant items and ``irrelevant`` others."""
    size, relevant = values.shape[-1], problem.relevant.expand(values.shape[0], -1, -1)
    others = torch.ones(values.shape[0], *problem.features.shape[:2], dtype=torch.float64).scatter_(2, relevant, 0.0)
    others = others if values.dim() == 3 else others.unsqueeze(2)
    count = size - relevant.shape[2]
    mean = (values * others).sum(-1, keepdim=True) / count
    spread = ((values - mean).square() * others).sum(-1) / (count - 1)
    return spread / irrelevant * (1.0 - irrelevant / count) * (count / size) ** 2


def above(scores: Tensor, threshold: Tensor) -> Tensor:
    """[R, Q, N]: φ′(h − λ)."""
    return torch.sigmoid((scores - threshold.unsqueeze(2)) / TAU1)


def pull(scores: Tensor, threshold: Tensor, sample: Sample) -> Tensor:
    """[R, Q]: the estimate of ∇_λ L."""
    return (K + EPSILON) / scores.shape[2] + TAU2 * threshold - mean_over(above(scores, threshold), sample)


def bend_of(scores: Tensor, threshold: Tensor) -> Tensor:
    """[R, Q, N]: φ″(h − λ)."""
    slope = above(scores, threshold)
    return slope * (1.0 - slope) / TAU1


def bend(scores: Tensor, threshold: Tensor, sample: Sample) -> Tensor:
    """[R, Q]: the estimate of ∇²_λ L."""
    return TAU2 + mean_over(bend_of(scores, threshold), sample)


def estimate_gradient(
    problem: Problem, weights: Tensor, sample: Sample, u: Tensor, threshold: Tensor, s: Tensor
) -> Tensor:
    """[R, d]: G of eq. (5), without the penalty: the mean over the drawn queries, with the given u, λ and s.

    >>> from songrank_paper.theory.problem import DECAY, make_problem
    >>> problem = make_problem()
    >>> w, full = 0.2 * problem.teacher, everything(problem, 1)
    >>> scores = problem.scores(w)
    >>> threshold = problem.threshold(scores)
    >>> given = problem.ranks(scores), threshold, bend(scores, threshold, full)
    >>> exact = problem.gradient(w, top_k=True) - DECAY * w
    >>> torch.allclose(estimate_gradient(problem, w, full, *given), exact)
    True
    """
    weights = weights.detach().clone().requires_grad_()
    scores = problem.scores(weights)
    own = scores.gather(2, problem.relevant.expand(scores.shape[0], -1, -1))
    place = scores.shape[2] * u + 1.0
    gain = (2.0**problem.label - 1.0) / problem.ideal
    value = -gain / torch.log2(place)
    slope = gain * scores.shape[2] / (math.log(2.0) * torch.log2(place).square() * place)
    psi = torch.sigmoid(SELECTOR_SCALE * (own.detach() - threshold.unsqueeze(2)))
    moved = (sample.share * bend_of(scores.detach(), threshold) * scores).sum(2) / s
    lead = SELECTOR_SCALE * psi * (1.0 - psi) * value * (own - moved.unsqueeze(2))
    total = psi * slope * mean_over(gaps(problem, scores), sample) + lead
    (found,) = torch.autograd.grad((total.sum(2) * sample.drawn).sum(), weights)
    return found / sample.drawn.sum(1, keepdim=True)
