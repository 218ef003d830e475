"""Estimates of ranks from sampled slates."""

import math

import pytest
import torch

from songrank import SlateSampler
from songrank.functional import Surrogate, ThresholdProblem, list_weights
from songrank.functional.rank_terms import RankTerms
from tests.losses.fixed_model import ITEMS, task, true_ranks


@pytest.mark.parametrize("num_relevant", [1, 2, 3, 12, 60, ITEMS])
def test_estimates_are_unbiased_for_small_and_large_numbers_of_relevant_items(num_relevant):
    copies = 12_000
    relevance, scores = task(num_relevant, copies=copies)
    slate = SlateSampler(relevance, relevant=5, irrelevant=8, seed=3).draw(torch.arange(copies))
    sampled = scores[slate.item]
    surrogate = Surrogate("squared_hinge", 1.0)
    estimate = RankTerms.of(sampled, slate, surrogate, "strata").estimate
    truth = true_ranks(relevance, scores, surrogate)
    for pair in range(num_relevant):
        contains = slate.active & (slate.pair % num_relevant == pair)
        drawn = estimate[contains]
        assert drawn.numel() > 300
        assert_mean(drawn, truth[pair])

    problem = ThresholdProblem(k=10, tau1=0.5, tau2=0.01)
    threshold = torch.full((copies,), 0.9, dtype=torch.float64)
    size, total = slate.list_size.double(), slate.num_relevant.double()
    weights = list_weights(slate.label, slate.mask, size, total)
    uniform = torch.full_like(scores, 1 / ITEMS)
    assert_mean(
        problem.gradient(threshold, sampled, weights, size),
        problem.gradient(threshold[0], scores, uniform, torch.tensor(float(ITEMS), dtype=torch.float64)),
    )
    assert_mean(problem.curvature(threshold, sampled, weights), problem.curvature(threshold[0], scores, uniform))


def assert_mean(drawn, truth):
    """The mean of independent draws is the truth, within five standard errors (120 such questions are asked)."""
    assert abs(float(drawn.mean() - truth)) <= 5 * float(drawn.std()) / math.sqrt(drawn.numel()) + 1e-9


def test_the_plain_mean_is_biased_and_the_strata_are_why():
    copies = 2000
    relevance, scores = task(12, copies=copies)
    slate = SlateSampler(relevance, relevant=5, irrelevant=8).draw(torch.arange(copies))
    surrogate = Surrogate("squared_hinge", 1.0)
    truth = float(true_ranks(relevance, scores, surrogate).mean())
    strata, plain = (
        float(RankTerms.of(scores[slate.item], slate, surrogate, estimator).estimate.mean())
        for estimator in ("strata", "plain")
    )
    assert abs(strata - truth) < 0.03 * truth
    assert plain > 1.15 * truth
