"""What the losses' memory does over time: unbiased estimates in, the truth out."""

import pytest
import torch

from songrank import KSONG, Slate, SlateSampler
from songrank.functional import Surrogate, ThresholdProblem, exact_threshold, smooth_threshold
from songrank.losses.paper_form import PaperForm
from songrank.losses.top_k import ThresholdOptions
from tests.losses.fixed_model import task, true_ranks


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
