"""RankNet, BPR, LambdaRank and LambdaLoss."""

import math
from itertools import combinations

import pytest
import torch

from songrank import functional as F
from songrank.functional.pairwise import _label_aware_ranks
from tests.functional.list_loss_table import batch
from tests.oracles import formulas


def test_lambdarank_puts_the_less_relevant_of_tied_items_first():
    # Labels (1, 0, 1) at one score: the irrelevant item ranks 1, the two relevant ones share (2 + 3)/2.
    scores = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64)
    ideal = 1.0 + 1.0 / math.log2(3)
    delta = (1.0 - 1.0 / math.log2(3.5)) / ideal
    value = F.lambdarank_loss(scores, labels)
    assert value.item() == pytest.approx(2 * delta * math.log(2.0), rel=1e-12)
    (gradient,) = torch.autograd.grad(value, scores)
    want = torch.tensor([[-delta / 2, 2 * delta / 2, -delta / 2]], dtype=torch.float64)
    torch.testing.assert_close(gradient, want, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("seed", range(5))
def test_label_aware_ranks_count_what_stands_above_and_half_of_what_is_alike(seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-2, 3, (20, 17), generator=generator).double()
    scores = torch.where(scores == 0, torch.where(torch.rand(20, 17, generator=generator) < 0.5, 0.0, -0.0), scores)
    labels = torch.randint(0, 3, (20, 17), generator=generator).double()
    mask = torch.rand(20, 17, generator=generator) < 0.8
    found = _label_aware_ranks(torch.where(mask, scores, -math.inf), torch.where(mask, labels, math.inf))
    for row in range(20):
        there = mask[row].nonzero().flatten().tolist()
        for i in there:
            s, y = scores[row, i].item(), labels[row, i].item()
            others = [(scores[row, j].item(), labels[row, j].item()) for j in there if j != i]
            above = sum(1 for t, z in others if t > s or (t == s and z < y))
            assert found[row, i].item() == 1.0 + above + 0.5 * others.count((s, y))


def test_bpr_with_one_level_of_relevance_is_ranknet():
    scores, labels, mask = batch(5, length=9)
    binary = (labels > 0).double()
    want = F.ranknet_loss(scores, binary, mask=mask, sigma=1.7, reduction="none")
    torch.testing.assert_close(F.bpr_loss(scores, binary, mask=mask, sigma=1.7, reduction="none"), want)
    graded = F.bpr_loss(scores, labels, mask=mask, sigma=1.7, reduction="none")
    torch.testing.assert_close(graded, want)  # relevant items form no pairs among themselves


def test_bpr_of_samples_is_unbiased():
    relevant = torch.tensor([0.4, -1.0, 2.0], dtype=torch.float64)
    irrelevant = torch.tensor([0.1, 0.7, -2.0, 3.0, 1.5], dtype=torch.float64)

    def value(some, others):
        labels = torch.cat([torch.ones(len(some)), torch.zeros(len(others))])
        return F.bpr_loss(torch.cat([some, others]), labels.double()).item()

    samples = [
        value(relevant[list(some)], irrelevant[list(others)])
        for some in combinations(range(3), 2)
        for others in combinations(range(5), 2)
    ]
    assert sum(samples) / len(samples) == pytest.approx(value(relevant, irrelevant), rel=1e-12)


def test_bpr_with_weights_follows_the_loops_and_ignores_weights_of_padding():
    scores, labels, mask = batch(4, length=8, seed=2)
    weight = torch.rand(4, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = F.bpr_loss(scores, labels, mask=mask, weight=weight.masked_fill(~mask, math.nan), reduction="none")
    for row in range(4):
        there = mask[row].nonzero().flatten()
        parts = [values[row, there].tolist() for values in (scores, labels, weight)]
        assert found[row].item() == pytest.approx(formulas.bpr(*parts[:2], None, None, weight=parts[2]), rel=1e-12)
    with pytest.raises(ValueError, match="weight has shape"):
        F.bpr_loss(scores, labels, weight=weight[:2])


@pytest.mark.parametrize("k", [None, 1, 3])
def test_lambda_loss_without_its_second_weight_is_lambdarank(k):
    scores, labels, mask = batch(6, length=9, seed=4)
    found = F.lambda_loss(scores, labels, mask=mask, mu=0.0, k=k, reduction="none")
    assert torch.equal(found, F.lambdarank_loss(scores, labels, mask=mask, k=k, reduction="none"))


def test_lambda_loss_at_the_length_of_the_list_is_that_of_the_list():
    scores, labels, _ = batch(6, length=9, seed=5)
    torch.testing.assert_close(F.lambda_loss(scores, labels, k=9), F.lambda_loss(scores, labels))


@pytest.mark.parametrize("seed", range(3))
def test_the_second_weight_of_lambda_loss_bounds_the_ndcg_that_is_lost(seed):
    """NDCG-Loss2 in bits, the limit of large μ, is at least 1 − NDCG (Wang et al. 2018); with k, 1 − NDCG@k."""
    scores, labels, _ = batch(20, length=9, seed=seed)
    labels[:, 0] = 1.0
    for k in (None, 2):
        bits = F.lambda_loss(scores, labels, mu=1e9, k=k, reduction="none") / 1e9 / math.log(2)
        for row in range(20):
            lost = 1.0 - formulas.ndcg(scores[row].tolist(), labels[row].tolist(), k)
            assert bits[row].item() >= lost - 1e-6


def test_an_item_far_below_k_still_has_a_gradient():
    scores = torch.linspace(3.0, 0.0, 30, dtype=torch.float64).requires_grad_()
    labels = torch.zeros(30, dtype=torch.float64)
    labels[29] = labels[25] = 1.0
    (gradient,) = torch.autograd.grad(F.lambda_loss(scores, labels, k=3), scores)
    assert bool((gradient[labels > 0] < 0).all())
    assert bool((gradient[labels == 0] > 0).all())
