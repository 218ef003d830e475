"""Positions of relevant items in a ranking of all items."""

import math
import re

import pytest
import torch

from songrank import Relevance
from songrank.functional.ranks import TIES
from songrank.metrics import evaluate_catalogue, evaluate_lists
from songrank.metrics.catalogue import metric_values
from songrank.metrics.positions import MANY
from tests.metrics.small_catalogue import ITEMS, QUERIES, assert_same, names_for, task


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("empty", ["skip", "zero", "one"])
@pytest.mark.parametrize("exclusions", [False, True])
@pytest.mark.parametrize("memory", [1, 40_000, 2**28])
def test_a_catalogue_is_measured_as_its_full_lists_are(ties, empty, exclusions, memory):
    scores, targets, labels, mask = task(exclusions=exclusions)
    ours = evaluate_catalogue(
        lambda query: scores[query], targets, metrics=names_for(ties), ties=ties, empty=empty, memory=memory
    )
    assert_same(ours, evaluate_lists(scores, labels, mask=mask, metrics=names_for(ties), ties=ties, empty=empty))


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("memory", [1, 2**28])
@pytest.mark.parametrize("exclusions", [False, True])
def test_several_scorings_are_measured_as_each_of_them(ties, memory, exclusions):
    scores, targets, _, _ = task(exclusions=exclusions)
    others = [scores, -scores, scores.round()]
    found = metric_values(
        lambda query: (own[query] for own in others), targets, "ndcg@10", ties=ties, gain="linear", memory=memory
    )
    known = (targets.num_relevant > 0).nonzero().squeeze(-1)
    for row, own in zip(found, others, strict=True):
        alone = evaluate_catalogue(lambda query, own=own: own[query], targets, ties=ties, gain="linear")
        torch.testing.assert_close(row, alone.per_query["ndcg@10"][known])
    some = known[torch.tensor([0, 3, 4])]
    part = metric_values(lambda query: [scores[query]], targets, "ndcg@10", queries=some, ties=ties, gain="linear")
    torch.testing.assert_close(part[0], found[0, torch.tensor([0, 3, 4])])


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64])
def test_scores_of_any_type_are_ranked_as_they_are(dtype, ties):
    scores, targets, labels, mask = task(seed=1, dtype=dtype)
    ours = evaluate_catalogue(lambda query: scores[query], targets, metrics=names_for(ties), ties=ties)
    assert_same(ours, evaluate_lists(scores, labels, mask=mask, metrics=names_for(ties), ties=ties))


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("gain", ["linear", lambda y: y**2])
def test_gains_are_as_asked(ties, gain):
    scores, targets, labels, mask = task(seed=2)
    ours = evaluate_catalogue(lambda query: scores[query], targets, ties=ties, gain=gain)
    names = ["ndcg@10", "ndcg@20", "ndcg@50"]
    assert_same(ours, evaluate_lists(scores, labels, mask=mask, metrics=names, ties=ties, gain=gain))


@pytest.mark.parametrize("ties", TIES)
def test_a_shard_is_asked_for_its_own_queries_by_their_global_ids(ties):
    scores, targets, _, _ = task()
    whole = evaluate_catalogue(lambda query: scores[query], targets, metrics=names_for(ties), ties=ties)
    parts = [targets.shard(0, 7), targets.shard(7, 16), targets.shard(16, QUERIES)]
    found = [
        evaluate_catalogue(lambda query: scores[query], part, metrics=names_for(ties), ties=ties) for part in parts
    ]
    assert [part.num_queries for part in found] == [7, 9, 7]
    assert sum(part.num_empty for part in found) == whole.num_empty
    for name, expected in whole.per_query.items():
        torch.testing.assert_close(torch.cat([part.per_query[name] for part in found]), expected, equal_nan=True)


@pytest.mark.parametrize("memory", [1, 30_000, 100_000, 2**28])
def test_a_chunk_of_scores_stays_within_the_memory_given(memory):
    scores, targets, _, _ = task()
    asked = []

    def score_all(query):
        asked.append(query)
        return scores[query].double()

    evaluate_catalogue(score_all, targets, memory=memory)
    assert max(len(query) for query in asked) * ITEMS * 8 <= max(memory, ITEMS * 8)
    assert len(asked) > 1 or memory > 2**20
    with_targets = targets.num_relevant.nonzero().squeeze(-1)
    assert torch.cat(asked).sort().values.tolist() == with_targets.tolist()
    assert all(query.dtype == torch.int64 for query in asked)


@pytest.mark.parametrize("num_targets", [1, 3, MANY, MANY + 1, ITEMS - 1])
def test_a_constant_scorer_stands_behind_everything_that_competes(num_targets):
    item = torch.arange(num_targets)
    exclude = (torch.zeros(1).long(), torch.tensor([ITEMS - 1]))
    targets = Relevance.from_pairs(torch.zeros_like(item), item, num_items=ITEMS, exclude=exclude)
    names = ["mrr", "hit_rate@58", "ndcg@58", "map"]
    for value in (0.0, math.inf, -math.inf):
        result = evaluate_catalogue(lambda query, v=value: torch.full((len(query), ITEMS), v), targets, metrics=names)
        assert result.values["mrr"] == pytest.approx(1 / (ITEMS - 1))
        assert result.values["hit_rate@58"] == result.values["ndcg@58"] == 0.0
        assert result.values["map"] == pytest.approx(num_targets / (ITEMS - 1))


def test_a_model_is_asked_through_its_score_all():
    scores, targets, labels, mask = task()

    class Model(torch.nn.Module):
        def forward(self, query, item):
            raise AssertionError("the whole catalogue has a call of its own")

        def score_all(self, query):
            assert not torch.is_grad_enabled()
            return scores[query]

    names = ["ndcg@10", "ndcg@20", "ndcg@50"]
    assert_same(evaluate_catalogue(Model(), targets), evaluate_lists(scores, labels, mask=mask, metrics=names))
    assert torch.is_grad_enabled()


def test_scores_that_the_caller_keeps_are_not_written_to():
    scores, targets, _, _ = task()
    table = scores[0].clone()
    evaluate_catalogue(lambda query: table.expand(len(query), -1), targets)
    assert torch.equal(table, scores[0])


def test_progress_ends_at_the_number_of_queries_with_targets():
    scores, targets, _, _ = task()
    seen = []
    evaluate_catalogue(lambda query: scores[query], targets, memory=30_000, progress=lambda *at: seen.append(at))
    total = int((targets.num_relevant > 0).sum())
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1] == (total, total)
    assert len(seen) > 2


@pytest.mark.parametrize(("empty", "value"), [("skip", math.nan), ("zero", 0.0), ("one", 1.0)])
def test_queries_without_targets_are_counted_and_not_scored(empty, value):
    targets = Relevance.from_pairs([], [], num_queries=4, num_items=5, exclude=([3] * 5, list(range(5))))

    def score_all(query):
        raise AssertionError("there is nothing to score")

    result = evaluate_catalogue(score_all, targets, metrics="mrr", empty=empty)
    assert (result.num_queries, result.num_empty) == (3, 3)  # the fourth has no item left: it is no query
    assert result.values["mrr"] == pytest.approx(value, nan_ok=True)
    assert result.per_query["mrr"].tolist() == pytest.approx([value] * 3 + [math.nan], nan_ok=True)


def test_nan_is_refused_where_it_competes_and_ignored_where_it_is_excluded():
    scores, targets, labels, mask = task()
    scores = torch.where(mask, scores, torch.nan)
    names = ["ndcg@10", "ndcg@20", "ndcg@50"]
    dense = evaluate_lists(scores, labels, mask=mask, metrics=names)
    assert_same(evaluate_catalogue(lambda query: scores[query], targets), dense)
    for relevant in (False, True):
        competing = mask & ((labels > 0) == relevant)
        spoilt = scores.clone()
        spoilt[9, competing[9].nonzero()[0]] = torch.nan
        for part in (targets, targets.shard(6, 12)):
            with pytest.raises(ValueError, match="score_all for query 9 is 'NaN for a candidate item'"):
                evaluate_catalogue(lambda query, s=spoilt: s[query], part)


def test_bad_arguments_are_named_with_what_was_expected():
    scores, targets, _, _ = task()
    with pytest.raises(ValueError, match=re.escape("score_all(query) has shape [")) as caught:
        evaluate_catalogue(lambda query: scores[query, :-1], targets)
    assert "expected [queries, num_items]" in str(caught.value)
    with pytest.raises(TypeError, match=re.escape("score_all(query) is 'list'; expected a tensor")):
        evaluate_catalogue(lambda query: scores[query].tolist(), targets)
    with pytest.raises(ValueError, match="on meta'; expected scores on the relevance's device, cpu"):
        evaluate_catalogue(lambda query: scores[query].to("meta"), targets)
    with pytest.raises(TypeError, match="score_all is 'Tensor'; expected a function of query ids"):
        evaluate_catalogue(scores, targets)
    with pytest.raises(ValueError, match="memory is 0; expected a whole number of at least 1"):
        evaluate_catalogue(lambda query: scores[query], targets, memory=0)
    with pytest.raises(ValueError, match="expected 'pessimistic' or 'stable' for mrr"):
        evaluate_catalogue(lambda query: scores[query], targets, metrics=["mrr"], ties="average")
    with pytest.raises(ValueError, match="expected a catalogue relevance; use evaluate_lists"):
        evaluate_catalogue(lambda query: scores[query], Relevance.from_lists([1.0, 0.0], [2]))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("ties", TIES)
def test_a_gpu_measures_what_a_cpu_does(ties):
    scores, targets, _, _ = task()
    here = evaluate_catalogue(lambda query: scores[query], targets, metrics=names_for(ties), ties=ties)
    there = evaluate_catalogue(
        lambda query: scores.cuda()[query], targets.to("cuda"), metrics=names_for(ties), ties=ties
    )
    for name, expected in here.per_query.items():
        torch.testing.assert_close(there.per_query[name].cpu(), expected, rtol=1e-12, atol=1e-15, equal_nan=True)
