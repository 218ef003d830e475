"""Names of metrics."""

import math

import pytest
import torch

from songrank import metrics
from songrank.metrics import evaluate_lists
from tests.metrics.small_lists import LABELS, SCORES


@pytest.mark.parametrize("empty", ["skip", "zero", "one"])
def test_an_evaluation_holds_what_the_functions_return(empty):
    result = evaluate_lists(SCORES, LABELS, metrics=["ndcg@2", "mrr", "map"], empty=empty, ties="stable")
    assert list(result.values) == list(result.per_query) == ["ndcg@2", "mrr", "map"]
    for name, fn, k in (("ndcg@2", metrics.ndcg, 2), ("mrr", metrics.mrr, None)):
        each = fn(SCORES, LABELS, k=k, empty=empty, ties="stable", reduction="none")
        torch.testing.assert_close(result.per_query[name], each, equal_nan=True)
        assert result.values[name] == float(fn(SCORES, LABELS, k=k, empty=empty, ties="stable"))
    assert (result.num_queries, result.num_empty) == (3, 1)
    assert (result.ties, result.empty, result.gain) == ("stable", empty, "exp2")


def test_padding_rows_are_no_queries():
    mask = torch.tensor([[True, True, True], [True, True, True], [False, False, False]])
    result = evaluate_lists(SCORES, LABELS, mask=mask)
    assert (result.num_queries, result.num_empty) == (2, 1)


def test_values_of_leading_axes_keep_their_shape():
    result = evaluate_lists(SCORES.reshape(3, 1, 3), LABELS.reshape(3, 1, 3), metrics="mrr")
    assert result.per_query["mrr"].shape == (3, 1)


def test_the_text_states_policies_and_empty_queries():
    first = (2 / math.log2(3)) / (2 + 1 / math.log2(3))
    text = str(evaluate_lists(SCORES, LABELS, metrics=["mrr", "ndcg@2"], empty="one", gain="linear"))
    assert text.splitlines() == [
        f"mrr     {(1 / 2 + 1 + 1 / 3) / 3:.6f}",
        f"ndcg@2  {(first + 1 + 0) / 3:.6f}",
        "3 queries, 1 without relevant items (counted as 1); ties: pessimistic; gain: linear",
    ]

    def squared(y: torch.Tensor) -> torch.Tensor:
        return y**2

    assert str(evaluate_lists(SCORES, LABELS, gain=squared)).endswith("(left out); ties: pessimistic; gain: squared")


def test_lists_are_ranked_once_for_all_metrics(monkeypatch):
    calls = []
    rank_span = metrics.blocks.rank_span
    monkeypatch.setattr(metrics.blocks, "rank_span", lambda *a, **kw: calls.append(1) or rank_span(*a, **kw))
    evaluate_lists(SCORES, LABELS, metrics=["ndcg@1", "ndcg@2", "mrr", "map", "recall@1"])
    assert len(calls) == 1


def test_averaged_ties_are_refused_if_one_of_the_metrics_cannot():
    with pytest.raises(ValueError, match="expected 'pessimistic' or 'stable' for map@5"):
        evaluate_lists(SCORES, LABELS, metrics=["ndcg", "map@5"], ties="average")


def test_an_unknown_gain_is_refused_even_where_no_metric_reads_it():
    with pytest.raises(ValueError, match="gain is 'cubic'; expected one of 'exp2', 'linear'"):
        evaluate_lists(SCORES, LABELS, metrics="mrr", gain="cubic")
