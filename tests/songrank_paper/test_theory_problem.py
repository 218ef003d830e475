"""The exact F and ∇F of the theory's problem: finite differences, and the package's losses on whole lists."""

import pytest
import torch

from songrank import KSONG, SONG, SlateSampler
from songrank.functional import ThresholdProblem, smooth_threshold
from songrank.losses.ksong import ThresholdOptions
from songrank.losses.paper_form import PaperForm
from songrank_paper.theory.methods import EQUATION_5, SMOOTHING, TOP_K
from songrank_paper.theory.problem import (
    DECAY,
    EPSILON,
    FEATURES,
    ITEMS,
    MARGIN,
    QUERIES,
    TAU1,
    TAU2,
    K,
    make_problem,
)
from songrank_paper.theory.runs import Draws, Scorer

PROBLEM = make_problem()


def weights(seed=0, runs=1, scale=0.5):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(runs, FEATURES, generator=generator, dtype=torch.float64)


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


def test_runs_do_not_touch_each_other():
    alone, among = weights(4), weights(5, runs=3)
    among[1] = alone[0]
    torch.testing.assert_close(PROBLEM.gradient(among, top_k=True)[1], PROBLEM.gradient(alone, top_k=True)[0])


def test_slates_are_drawn_independently_and_uniformly():
    draws = Draws(PROBLEM, 5, 8, seeds=(3, 4))
    counts, items = torch.zeros(QUERIES), torch.zeros(ITEMS)
    repeated = 0
    last = None
    for slate in draws.steps(400):
        first = slate.query[:5]
        assert len(set(first.tolist())) == 5
        counts[first] += 1
        chosen = slate.item[:5, 6:]
        assert bool((slate.label[:5, 6:] == 0).all())
        items += torch.bincount(chosen.reshape(-1), minlength=ITEMS)
        repeated += 0 if last is None else len(set(first.tolist()) & last)
        last = set(first.tolist())
        assert bool((slate.query[5:] >= QUERIES).all())
    expected = 400 * 5 / QUERIES
    assert float((counts - expected).abs().max()) < 5 * expected**0.5
    # Drawn once an epoch, a query would come again in the next step only across an epoch's end.
    assert 120 < repeated < 280
    # How often an item can be irrelevant differs a little between items.
    assert float((items / items.mean() - 1).abs().max()) < 0.5


def test_copies_see_the_same_slates_with_pairs_of_their_own():
    plain = next(iter(Draws(PROBLEM, 5, 8, seeds=(3,)).steps(1)))
    copied = next(iter(Draws(PROBLEM, 5, 8, seeds=(3,)).steps(1, copies=2)))
    assert torch.equal(copied.item, plain.item.repeat(2, 1))
    assert torch.equal(copied.pair[5:], plain.pair + 300)
    assert torch.equal(copied.query[5:], plain.query + QUERIES)
    relevant = PROBLEM.relevance.item[plain.pair.reshape(-1)].view(5, 6)
    assert torch.equal(relevant.long(), plain.item[:, :6])


def test_the_scorer_gives_each_run_the_problems_scores():
    scorer = Scorer(PROBLEM, copies=2, seeds=1)
    both = weights(6, runs=2)
    with torch.no_grad():
        for own, value in zip(scorer.runs, both, strict=True):
            own.copy_(value)
    slate = next(iter(Draws(PROBLEM, 5, 8, seeds=(3,)).steps(1, copies=2)))
    exact = PROBLEM.scores(both)
    wanted = torch.stack([exact[q // QUERIES, q % QUERIES, i] for q, i in zip(slate.query, slate.item, strict=True)])
    torch.testing.assert_close(scorer(slate.query, slate.item), wanted)
