"""Helpers that tests of several modules share."""

import math

import pytest
import torch

from songrank import Relevance
from songrank.metrics.positions import MANY

QUERIES, ITEMS = 23, 60

NAMES = ["ndcg@1", "ndcg@10", "ndcg", "dcg@5", "precision@7", "precision", "recall@20"]

BROKEN_TIES = ["mrr", "mrr@5", "map", "map@10", "hit_rate@3"]


def names_for(ties):
    return NAMES if ties == "average" else NAMES + BROKEN_TIES


def task(seed=0, *, exclusions=True, dtype=torch.float32):
    """Scores with many ties, targets (few, many and none) and the same as dense labels and mask."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-4, 5, (QUERIES, ITEMS), generator=generator).to(dtype)
    if dtype.is_floating_point:
        scores[scores == -4] = -math.inf
        scores[scores == 4] = math.inf
    share = torch.tensor([0.0, 0.05, 0.3, 0.95]).repeat(QUERIES)[:QUERIES]
    relevant = torch.rand(QUERIES, ITEMS, generator=generator) < share.unsqueeze(-1)
    labels = torch.where(relevant, torch.randint(1, 4, (QUERIES, ITEMS), generator=generator), 0).float()
    barred = (torch.rand(QUERIES, ITEMS, generator=generator) < 0.3) & ~relevant & exclusions
    query, item = relevant.nonzero(as_tuple=True)
    targets = Relevance.from_pairs(
        query,
        item,
        labels[relevant],
        num_queries=QUERIES,
        num_items=ITEMS,
        exclude=barred.nonzero(as_tuple=True) if exclusions else None,
    )
    assert (targets.num_relevant > MANY).any()
    assert (targets.num_relevant == 0).any()
    return scores, targets, labels, ~barred


def assert_same(ours, dense):
    assert list(ours.values) == list(dense.values)
    for name, expected in dense.per_query.items():
        torch.testing.assert_close(ours.per_query[name], expected, rtol=1e-12, atol=1e-15, equal_nan=True)
        assert ours.values[name] == pytest.approx(dense.values[name], rel=1e-12)
    assert (ours.num_queries, ours.num_empty) == (dense.num_queries, dense.num_empty)
