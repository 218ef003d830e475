"""Weights of queries: they change what a query counts for, never what is drawn."""

import pytest
import torch

from songrank import SONG, LambdaRank, ListwiseCE, Relevance, SlateSampler, SoftmaxCE
from songrank.losses.base import row_shares

LABELS, LENGTHS = torch.tensor([0.0, 1, 0, 2, 0, 1, 0, 0, 3, 1]), torch.tensor([3, 4, 3])
WEIGHT = torch.tensor([2.0, 0.5, 1.0])


@pytest.mark.parametrize("columns", [{"relevant": "all", "irrelevant": "all"}, {"length": 3}, {"relevant": 2}])
@pytest.mark.parametrize("partial", ["short", "pad"])
def test_every_row_carries_its_querys_weight_and_holds_what_it_held_without(columns, partial):
    relevance = Relevance.from_lists(LABELS, LENGTHS)
    plain = SlateSampler(relevance, 2, **columns, partial=partial)
    weighted = SlateSampler(relevance, 2, **columns, partial=partial, query_weight=WEIGHT.double())
    for epoch in range(2):
        for one, other in zip(plain, weighted, strict=True):
            for name in ("query", "item", "label", "mask", "pair", "ideal_dcg"):
                assert torch.equal(getattr(one, name), getattr(other, name)), (name, epoch)
            real = torch.ones_like(one.query, dtype=torch.float32) if one.row_weight is None else one.row_weight
            assert torch.equal(other.row_weight, WEIGHT[one.query] * real)
            assert (one.row_weight is None) == (partial == "short")


@pytest.mark.parametrize("loss", [SONG, ListwiseCE, LambdaRank, SoftmaxCE])
def test_a_weight_of_two_is_the_query_drawn_twice(loss):
    relevance = Relevance.from_lists(LABELS, LENGTHS)
    columns = {"relevant": "all", "irrelevant": "all"}
    weighted = SlateSampler(relevance, 3, **columns, query_weight=torch.tensor([1.0, 2.0, 1.0])).draw([0, 1, 2])
    twice = SlateSampler(relevance, 4, **columns).draw([0, 1, 1, 2])
    base = torch.randn(LABELS.shape[0], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gradients = []
    for slate in (weighted, twice):
        scores = base.clone().requires_grad_()
        made = loss(relevance.num_pairs) if loss in (SONG, ListwiseCE) else loss()
        made(scores[slate.item], slate).backward()
        gradients.append(scores.grad)
    assert gradients[0].abs().sum() > 0
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-6, atol=1e-9)


def test_a_shard_takes_the_weights_of_its_own_queries_and_one_of_weight_zero_counts_for_nothing():
    relevance = Relevance.from_lists(LABELS, LENGTHS)
    slate = SlateSampler(relevance, 3, length=3, query_weight=torch.tensor([0.0, 1.0, 3.0])).draw([2, 0, 1])
    assert row_shares(slate, torch.float64).tolist() == [0.75, 0.0, 0.25]


@pytest.mark.parametrize("weight", [[1.0, -1.0, 1.0], [1.0, float("nan"), 1.0], [0.0, 0.0, 0.0], [1.0, 1.0]])
def test_weights_that_are_none_are_refused(weight):
    with pytest.raises(ValueError, match="^query_weight is "):
        SlateSampler(Relevance.from_lists(LABELS, LENGTHS), 2, query_weight=torch.tensor(weight))
