"""Metrics among sampled candidates, beside a plain loop over the lists that were drawn."""

import math

import pytest
import torch

from songrank import Relevance, SlateSampler
from songrank.metrics import evaluate_catalogue, evaluate_sampled


def targets():
    generator = torch.Generator().manual_seed(4)
    pairs = torch.rand(50, 90, generator=generator)
    query, item = (pairs < 0.03).nonzero(as_tuple=True)
    seen = ((pairs > 0.8) & (torch.arange(50) % 2 == 0).unsqueeze(1)).nonzero(as_tuple=True)
    label = torch.randint(1, 4, query.shape, generator=generator).float()
    return Relevance.from_pairs(query, item, label, 50, 90, exclude=seen), torch.rand(50, 90, generator=generator)


def plain_ndcg(scores, labels, k):
    place = sorted(range(len(scores)), key=lambda at: (-scores[at], labels[at]))  # ties: the worse place
    gains = [(2 ** labels[at] - 1) / math.log2(rank + 2) for rank, at in enumerate(place[:k])]
    ideal = [(2**y - 1) / math.log2(rank + 2) for rank, y in enumerate(sorted(labels, reverse=True)[:k])]
    return sum(gains) / sum(ideal)


def test_equal_to_a_plain_loop_over_the_lists_that_the_sampler_draws():
    table, scores = targets()
    found = evaluate_sampled(
        lambda query, item: scores[query.unsqueeze(1), item], table, 12, seed=5, metrics=["ndcg@3", "mrr"]
    )
    sampler = SlateSampler(table, 1, relevant="all", irrelevant=12, seed=5)
    for query in range(50):
        if not table.num_relevant[query]:
            assert found.per_query["ndcg@3"][query].isnan()
            continue
        slate = sampler.draw([query], epoch=0)
        here = slate.mask[0].nonzero().squeeze(1)
        item, label = slate.item[0, here].tolist(), slate.label[0, here].tolist()
        assert len(set(item)) == len(item) == int(table.num_relevant[query]) + 12
        expected = plain_ndcg(scores[query, item].tolist(), label, 3)
        assert float(found.per_query["ndcg@3"][query]) == pytest.approx(expected)
    assert found.candidates == 12
    assert found.num_empty == int((table.num_relevant == 0).sum())


def test_with_as_many_candidates_as_there_are_items_nothing_is_sampled():
    table, scores = targets()
    some = evaluate_sampled(lambda query, item: scores[query.unsqueeze(1), item], table, 1000, metrics="ndcg@10")
    everything = evaluate_catalogue(lambda query: scores[query], table, metrics="ndcg@10")
    assert torch.allclose(some.per_query["ndcg@10"], everything.per_query["ndcg@10"], equal_nan=True)
    assert "sampled" not in str(some)


@pytest.mark.parametrize("policies", [{"ties": "average", "empty": "zero"}, {"empty": "one", "gain": "linear"}])
def test_policies_and_seeds_count(policies):
    table, scores = targets()
    score = lambda query, item: scores[query.unsqueeze(1), item].round(decimals=1)  # noqa: E731
    one, again, other = (evaluate_sampled(score, table, 9, seed=seed, **policies) for seed in (1, 1, 2))
    assert one.values == again.values != other.values
    assert "among 9 sampled candidates" in str(one)
    empty = one.per_query["ndcg@10"][table.num_relevant == 0]
    assert (empty == (0.0 if policies["empty"] == "zero" else 1.0)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"candidates": 0}, "candidates is 0; expected a whole number of at least 1"),
        ({"metrics": "best"}, "metric is 'best'; expected one of"),
        ({"score": lambda query, item: torch.zeros(3)}, r"score\(query, item\) has shape \[3\]"),
        ({"targets": Relevance.from_lists([1.0, 0.0], [2])}, "a catalogue relevance; use evaluate_lists"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    table, scores = targets()
    given = {"score": lambda query, item: scores[query.unsqueeze(1), item], "targets": table, "candidates": 5}
    with pytest.raises((ValueError, TypeError), match=message):
        evaluate_sampled(**{**given, **change})
