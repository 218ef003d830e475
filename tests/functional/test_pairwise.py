"""RankNet and LambdaRank."""

import math

import pytest
import torch

from songrank import functional as F
from songrank.functional.pairwise import _label_aware_ranks


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
