"""The exact F and ∇F of the theory's problem: finite differences, and the package's losses on whole lists."""

import pytest
import torch

from songrank import KSONG, SONG, SlateSampler
from songrank.functional import ThresholdProblem, smooth_threshold
from songrank.losses.paper_form import PaperForm
from songrank.losses.top_k import ThresholdOptions
from songrank_paper.theory.methods import EQUATION_5, SMOOTHING, TOP_K
from songrank_paper.theory.problem import (
    DECAY,
    EPSILON,
    FEATURES,
    MARGIN,
    QUERIES,
    TAU1,
    TAU2,
    K,
)
from tests.songrank_paper.theory.small_problem import PROBLEM
from tests.songrank_paper.theory.small_weights import weights


def whole_lists(w, loss, k=None):
    """Value and gradient in w of a loss on all lists, without ρ/2 ‖w‖²."""
    slate = SlateSampler(PROBLEM.relevance, QUERIES, "all", "all", k=k).draw(torch.arange(QUERIES), 0)
    w = w.clone().requires_grad_()
    value = loss(PROBLEM.scores(w)[0], slate)
    value.backward()
    return value.detach(), w.grad


@pytest.mark.parametrize("top_k", [False, True])
def test_the_gradient_is_that_of_finite_differences(top_k):
    w = weights()
    numeric = torch.zeros_like(w)
    for at in range(FEATURES):
        step = torch.zeros_like(w)
        step[0, at] = 1e-5
        ends = [PROBLEM.value(w + sign * step, top_k=top_k) for sign in (1, -1)]
        numeric[0, at] = (ends[0] - ends[1])[0] / 2e-5
    torch.testing.assert_close(PROBLEM.gradient(w, top_k=top_k), numeric, rtol=1e-6, atol=1e-8)


def test_song_on_whole_lists_has_this_value_and_gradient():
    w = weights(1)
    value, gradient = whole_lists(w, SONG(300, 1.0, margin=MARGIN, rank_offset=0.0, dtype=torch.float64))
    # The ideal DCG of a slate is in float32.
    torch.testing.assert_close(PROBLEM.value(w)[0] - DECAY / 2 * w.square().sum(), value, rtol=1e-6, atol=0)
    torch.testing.assert_close(PROBLEM.gradient(w) - DECAY * w, gradient, rtol=1e-6, atol=1e-9)


def test_k_song_on_whole_lists_with_the_exact_threshold_has_this_value_and_gradient():
    w = weights(2)
    threshold = ThresholdOptions(gamma=1.0, **SMOOTHING)
    loss = KSONG(300, QUERIES, K, 1.0, threshold=threshold, form=PaperForm(**EQUATION_5), **TOP_K)
    loss.threshold.write(torch.arange(QUERIES), PROBLEM.threshold(PROBLEM.scores(w))[0])
    value, gradient = whole_lists(w, loss, K)
    exact = PROBLEM.value(w, top_k=True)[0] - DECAY / 2 * w.square().sum()
    torch.testing.assert_close(exact, value, rtol=1e-6, atol=0)
    torch.testing.assert_close(PROBLEM.gradient(w, top_k=True) - DECAY * w, gradient, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("scale", [0.0, 0.5, 5.0])
def test_the_threshold_is_stationary_and_what_bisection_finds(scale):
    scores = PROBLEM.scores(weights(3, runs=4, scale=scale))
    found = PROBLEM.threshold(scores)
    assert float(PROBLEM.threshold_slope(found, scores).abs().max()) < 1e-12
    bisected = smooth_threshold(scores, ThresholdProblem(K, EPSILON, TAU1, TAU2))
    torch.testing.assert_close(found, bisected, rtol=0, atol=1e-11)
