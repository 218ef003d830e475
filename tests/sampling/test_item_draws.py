"""Drawing relevant and irrelevant items."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank import Relevance, SlateSampler
from songrank.sampling.item_draws import Spread, taken_before_by_merge, taken_before_by_search
from tests.sampling.small_relevance import random_relevance


@pytest.mark.parametrize(("items", "asked"), [(9, 4), (30, 7), (30, 29), (7, 6)])
def test_irrelevant_items_are_equally_likely(items, asked):
    copies = 30_000
    taken = torch.tensor([0, items // 2])
    query = torch.arange(copies).repeat_interleave(2)
    relevance = Relevance.from_pairs(query, taken.repeat(copies), num_items=items)
    slate = SlateSampler(relevance, relevant=2, irrelevant=asked).draw(torch.arange(copies))
    drawn = slate.item[slate.mask & (slate.label == 0)]
    counts = torch.bincount(drawn, minlength=items).double()
    assert counts[taken].sum() == 0
    rest = counts[counts > 0]
    share = min(asked, items - 2) / (items - 2)
    assert rest.numel() == items - 2
    error = math.sqrt(copies * share * (1 - share)) if share < 1 else 1e-9
    assert float((rest - copies * share).abs().max()) < 4.5 * error + 1e-9


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), items=st.integers(1, 50), asked=st.integers(1, 40), excluded=st.booleans())
def test_merging_and_searching_find_the_same_items(seed, items, asked, excluded):
    relevance, _, _ = random_relevance(seed, queries=12, items=items, excluded=excluded)
    query = torch.arange(12)
    total = relevance.num_relevant
    rest = relevance.list_size - total
    kept, others = total.clamp(max=3), rest.clamp(max=asked)
    spread = Spread.draw(query * 7919 + seed, kept, others, rest, 3 + asked)
    bounds = relevance.taken_indptr[query], relevance.taken_indptr[query + 1]
    column = torch.arange(3 + asked)
    drawn = (column >= kept.unsqueeze(1)) & (column < (kept + others).unsqueeze(1))
    merged = taken_before_by_merge(relevance, query, bounds[0], spread)
    searched = taken_before_by_search(relevance, query, *bounds, spread)
    assert torch.equal(merged[drawn], searched[drawn])


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
