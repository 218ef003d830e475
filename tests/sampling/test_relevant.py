"""Drawing relevant items."""

import torch

from songrank import Relevance, SlateSampler
from tests.sampling.small_relevance import random_relevance


def test_one_relevant_item_asked_for_gives_two_where_there_are_two():
    relevance, is_relevant, _ = random_relevance()
    for slate in SlateSampler(relevance, 16, relevant=1, irrelevant=3):
        assert torch.equal((slate.pair >= 0).sum(-1), is_relevant[slate.query].sum(-1).clamp(max=2))


def test_relevant_subsets_are_uniform():
    copies = 30_000
    query = torch.arange(copies).repeat_interleave(5)
    relevance = Relevance.from_pairs(query, torch.arange(5).repeat(copies), num_items=6)
    slate = SlateSampler(relevance, relevant=3, irrelevant=1).draw(torch.arange(copies))
    chosen = slate.item[:, :3].sort(-1).values
    counts = torch.bincount((chosen * torch.tensor([25, 5, 1])).sum(-1))
    counts = counts[counts > 0].double()
    assert counts.numel() == 10
    assert float(((counts - copies / 10).square() / (copies / 10)).sum()) < 32  # 9 degrees of freedom, p ≈ 2e-4
