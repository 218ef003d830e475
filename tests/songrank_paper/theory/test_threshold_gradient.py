"""Estimators of ∇λ on a sample."""

import pytest
import torch

from songrank.functional import ThresholdProblem
from songrank_paper.theory.threshold_gradient import EPSILON, ESTIMATORS, TAU1, TAU2, coefficients, simulate
from tests.songrank_paper.theory.small_problem import HERE

SCORES = torch.randn(3, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LEVEL = torch.tensor(0.4, dtype=torch.float64)
MEMORY = torch.tensor([[0.3], [0.5], [1.1]], dtype=torch.float64)


def test_the_slate_is_the_ratio_of_the_losses():
    problem = ThresholdProblem(2, EPSILON, TAU1, TAU2)
    weights = torch.full_like(SCORES, 1 / 12)
    levels = LEVEL.expand(3)
    cross = problem.cross_curvature(levels, SCORES, weights)
    want = cross / problem.curvature(levels, SCORES, weights).unsqueeze(1)
    torch.testing.assert_close(coefficients("slate", SCORES, LEVEL, MEMORY), want, rtol=1e-12, atol=0)


def test_the_jackknife_is_that_of_samples_without_one_item():
    whole = coefficients("slate", SCORES, LEVEL, MEMORY)
    for row in range(3):
        want = 12 * whole[row]
        for item in range(12):
            rest = [j for j in range(12) if j != item]
            smaller = coefficients("slate", SCORES[row : row + 1, rest], LEVEL, MEMORY)[0]
            want[rest] -= 11 / 12 * smaller
        torch.testing.assert_close(coefficients("jackknife", SCORES, LEVEL, MEMORY)[row], want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("estimator", ["normalised", "regression"])
def test_the_coefficients_sum_to_one_with_any_memory(estimator):
    total = coefficients(estimator, SCORES, LEVEL, MEMORY).sum(1)
    torch.testing.assert_close(total, torch.ones(3, dtype=torch.float64), rtol=1e-12, atol=0)


def test_few_items_near_the_threshold_bias_the_slate_and_larger_samples_and_corrections_reduce_it():
    few = simulate(HERE, k=5, sampled=300, lists=6, draws=800)
    assert set(few) == set(ESTIMATORS)
    assert -0.25 < few["slate"]["along"] < -0.06
    assert few["slate"]["sum"] < 0.97
    assert few["jackknife"]["off"] < 0.75 * few["slate"]["off"]
    assert few["regression"]["off"] < 0.5 * few["slate"]["off"]
    assert abs(few["regression"]["along"]) < 0.5 * abs(few["slate"]["along"])
    assert few["regression"]["sd"] < 0.6 * few["memory"]["sd"]
    more = simulate(HERE, k=5, sampled=1000, lists=6, draws=400)
    assert abs(more["slate"]["along"]) < 0.3 * abs(few["slate"]["along"])
