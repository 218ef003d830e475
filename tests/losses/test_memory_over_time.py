"""What the losses' memory does over time: unbiased estimates in, the truth out."""

import math

import pytest
import torch

from songrank import KSONG, SONG, Relevance, Slate, SlateSampler
from songrank.functional import Surrogate, ThresholdProblem, exact_threshold, list_weights, smooth_threshold
from songrank.functional.rank_terms import RankTerms
from songrank.losses.ksong import ThresholdOptions
from songrank.losses.paper_form import PaperForm

ITEMS = 120


def task(num_relevant, seed=0, copies=1):
    """Queries that all have the same list, and its scores; relevant items tend to score higher."""
    generator = torch.Generator().manual_seed(seed)
    item = torch.randperm(ITEMS, generator=generator)[:num_relevant].sort().values
    label = torch.randint(1, 5, (num_relevant,), generator=generator).float()
    scores = torch.randn(ITEMS, generator=generator, dtype=torch.float64)
    scores[item] += 0.7
    query = torch.arange(copies).repeat_interleave(num_relevant)
    return Relevance.from_pairs(query, item.repeat(copies), label.repeat(copies), num_items=ITEMS), scores


def true_ranks(relevance, scores, surrogate):
    """g of the first query's pairs: the mean over the full list."""
    relevant = scores[relevance.item[: int(relevance.num_relevant[0])].long()]
    return surrogate(scores.unsqueeze(0) - relevant.unsqueeze(1)).mean(-1)


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


@pytest.mark.parametrize("step", ["newton", "gradient"])
def test_on_a_fixed_model_and_full_lists_u_and_the_threshold_reach_the_truth(step):
    relevance, scores = task(12)
    sampler = SlateSampler(relevance, queries_per_batch=1, relevant="all", irrelevant="all", k=10)
    loss = KSONG(
        relevance.num_pairs,
        1,
        10,
        gamma=0.3,
        threshold=ThresholdOptions(rate=0.5 if step == "newton" else 2.0, tau1=0.2, tau2=0.01),
        form=PaperForm(threshold_step=step),
        dtype=torch.float64,
    )
    slate = sampler.draw(torch.tensor([0]), 0)
    for _ in range(400):
        loss(scores.unsqueeze(0), slate)
    truth = true_ranks(relevance, scores, Surrogate("squared_hinge", 1.0))
    torch.testing.assert_close(loss.u.read(), truth, rtol=1e-9, atol=0)
    problem = ThresholdProblem(k=10, tau1=0.2, tau2=0.01)
    best = smooth_threshold(scores, problem, centre=loss.centre.read()[0])
    torch.testing.assert_close(loss.threshold.read()[0], best, rtol=1e-8, atol=1e-8)


def test_on_a_fixed_model_and_sampled_slates_u_and_the_threshold_stay_near_the_truth():
    relevance, scores = task(12, seed=4)
    sampler = SlateSampler(relevance, queries_per_batch=1, relevant=5, irrelevant=40, k=10)
    threshold = ThresholdOptions(rate=0.05, gamma=0.1, tau1=0.2)
    loss = KSONG(relevance.num_pairs, 1, 10, gamma=0.05, threshold=threshold, dtype=torch.float64)
    tail_u, tail_threshold = [], []
    for epoch in range(800):
        slate = sampler.draw(torch.tensor([0]), epoch)
        loss(scores[slate.item], slate)
        if epoch >= 300:
            tail_u.append(loss.u.read())
            tail_threshold.append(loss.threshold.read())
    truth = true_ranks(relevance, scores, Surrogate("squared_hinge", 1.0))
    torch.testing.assert_close(torch.stack(tail_u).mean(0), truth, rtol=0.1, atol=0)
    best = smooth_threshold(scores, ThresholdProblem(k=10, tau1=0.2, tau2=1e-4), centre=loss.centre.read()[0])
    assert abs(float(torch.cat(tail_threshold).mean() - best)) < 0.1


def test_the_first_visit_sets_u_and_later_visits_move_it_by_gamma():
    relevance, scores = task(3)
    sampler = SlateSampler(relevance, queries_per_batch=1, relevant="all", irrelevant="all")
    slate = sampler.draw(torch.tensor([0]), 0)
    loss = SONG(3, gamma=0.25, dtype=torch.float64)
    loss(scores.unsqueeze(0), slate)
    first = loss.u.read()
    torch.testing.assert_close(first, true_ranks(relevance, scores, Surrogate("squared_hinge", 1.0)))
    loss(-scores.unsqueeze(0), slate)
    second = true_ranks(relevance, -scores, Surrogate("squared_hinge", 1.0))
    torch.testing.assert_close(loss.u.read(), 0.75 * first + 0.25 * second)


def test_the_threshold_moves_with_the_scores_however_stale_the_curvature_is():
    relevance, scores = task(12)
    slate = SlateSampler(relevance, relevant="all", irrelevant="all", k=10).draw(torch.tensor([0]), 0)
    shares = {}
    for implicit in ("slate", "memory"):
        loss = KSONG(
            relevance.num_pairs,
            1,
            10,
            threshold=ThresholdOptions(tau2=0.0),
            form=PaperForm(implicit=implicit),
            dtype=torch.float64,
        )
        loss(0.001 * scores.unsqueeze(0), slate)  # all scores close together: a curvature many times what it will be
        leaf = scores.clone().unsqueeze(0).requires_grad_()
        loss(leaf, slate).backward()
        shares[implicit] = abs(float(leaf.grad.sum() / leaf.grad.abs().sum()))
    assert shares["slate"] < 1e-12, "adding a constant to all scores is worth nothing, so the gradient sums to 0"
    assert shares["memory"] > 0.01


@pytest.mark.parametrize("smoothing", ["softplus", "hinge"])
@pytest.mark.parametrize(("items", "k", "spread"), [(6, 2, 1.0), (10, 3, 20.0), (20, 5, 100.0), (120, 20, 5.0)])
def test_the_threshold_settles_where_no_score_is_near_it(items, k, spread, smoothing):
    rows = 60
    generator = torch.Generator().manual_seed(items)
    labels = torch.zeros(rows, items)
    labels[:, 0] = 1.0
    slate = Slate.from_batch(labels, torch.arange(rows), torch.arange(rows).unsqueeze(1), k=k)
    loss = KSONG(rows, rows, k, form=PaperForm(smoothing=smoothing), dtype=torch.float64)
    loss(torch.randn(rows, items, generator=generator, dtype=torch.float64), slate)  # another model's thresholds
    scores = spread * torch.randn(rows, items, generator=generator, dtype=torch.float64)
    for _ in range(300):
        loss(scores, slate)
    exact = exact_threshold(scores, k)
    assert float((loss.threshold.read() - exact).abs().max()) < 0.5 + 0.02 * spread
