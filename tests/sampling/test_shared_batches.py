"""The rows of a process in batches that several processes share."""

import pytest
import torch

from songrank import Relevance, SlateSampler
from songrank.sampling import SharedBatches

QUERIES = 4000


def sampler(own, seed=0):
    relevance = Relevance.from_pairs(torch.arange(QUERIES), torch.arange(QUERIES) % 7, num_items=9)
    shared = SharedBatches(torch.arange(QUERIES), own)
    return SlateSampler(relevance.shard(*own), 256, 2, 3, seed=seed, shared=shared)


@pytest.mark.parametrize("own", [(0, 500), (500, 2500), (3990, 4000)])
def test_nearly_all_batches_fit_the_padded_rows(own):
    share = (own[1] - own[0]) / QUERIES
    found = sampler(own)
    assert 256 * share < found.rows_here < 256 * share + 5 * (256 * share) ** 0.5 + 1
    assert all(found.fits(epoch) for epoch in range(200))


def test_a_batch_with_more_rows_does_not_fit():
    found = sampler((0, 500))
    most = max(slate.query.shape[0] for slate in found)
    for width in (most - 1, most):
        found._width = width
        assert found.fits(0) == (width == most)


def test_the_padded_order_has_each_query_in_its_batch():
    found = sampler((500, 2500), seed=3)
    order = found.padded_order(0).view(len(found), found.rows_here)
    for row, slate in zip(order, found, strict=True):
        there = row >= 0
        assert torch.equal(row[there], slate.query)
        assert bool((-1 - row[~there] == slate.query[0]).all())
