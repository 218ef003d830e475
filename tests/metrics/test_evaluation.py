"""Several metrics of the same lists, and values per query collected block by block."""

import math

import pytest
import torch

from songrank import metrics
from songrank.metrics import blocks, evaluate_lists
from songrank.metrics.evaluation import Tally, reduce_queries
from songrank.metrics.names import parse_metrics
from songrank.metrics.spans import Spans
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
    rank_span = blocks.rank_span
    monkeypatch.setattr(blocks, "rank_span", lambda *a, **kw: calls.append(1) or rank_span(*a, **kw))
    evaluate_lists(SCORES, LABELS, metrics=["ndcg@1", "ndcg@2", "mrr", "map", "recall@1"])
    assert len(calls) == 1


def test_averaged_ties_are_refused_if_one_of_the_metrics_cannot():
    with pytest.raises(ValueError, match="expected 'pessimistic' or 'stable' for map@5"):
        evaluate_lists(SCORES, LABELS, metrics=["ndcg", "map@5"], ties="average")


def test_an_unknown_gain_is_refused_even_where_no_metric_reads_it():
    with pytest.raises(ValueError, match="gain is 'cubic'; expected one of 'exp2', 'linear'"):
        evaluate_lists(SCORES, LABELS, metrics="mrr", gain="cubic")


def tally():
    """Query 0 has its relevant item at rank 2, query 1 none, query 2 one at rank 1, and query 3 is padding."""
    found = Tally(parse_metrics(["recall@1"]), torch.tensor([True, True, True, False]), "exp2")
    for query, rank in (([2, 1], [1, 1]), ([0], [2])):
        position, mask = torch.tensor([[one] for one in rank]), torch.tensor([[one != 1] for one in query])
        found.add(torch.tensor(query), Spans(position, position, mask.double(), mask, torch.tensor([3] * len(query))))
    return found


@pytest.mark.parametrize(("empty", "value"), [("skip", math.nan), ("zero", 0.0), ("one", 1.0)])
def test_queries_without_a_relevant_item_follow_the_policy_and_padding_never_counts(empty, value):
    (values,) = tally().per_query(empty).values()
    torch.testing.assert_close(values.tolist(), [0.0, value, 1.0, math.nan], equal_nan=True)


def test_queries_are_counted():
    found = tally()
    assert (found.num_queries, found.num_empty) == (3, 1)


def test_reductions_leave_out_nan():
    values = torch.tensor([1.0, math.nan, 3.0])
    assert reduce_queries(values, "mean") == 2.0
    assert reduce_queries(values, "sum") == 4.0
    assert reduce_queries(values, "none") is values
    assert reduce_queries(values[1:2], "mean").isnan()
    assert reduce_queries(values[1:2], "sum") == 0.0
    with pytest.raises(ValueError, match="^reduction is 'max'"):
        reduce_queries(values, "max")


def test_the_repr_is_one_line():
    labels = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    found = repr(evaluate_lists(torch.tensor([[0.9, 0.5], [0.1, 0.2]]), labels, metrics=["mrr", "ndcg@10"]))
    assert found == "Evaluation(mrr=0.500000, ndcg@10=0.630930; 2 queries, 1 empty)"


def test_a_notebook_shows_a_small_table_of_text():
    found = evaluate_lists(SCORES, LABELS, metrics=["mrr"], gain=lambda y: y)
    page = found._repr_html_()
    assert f"<tr><th>mrr</th><td>{found.values['mrr']:.6f}</td></tr>" in page
    assert "&lt;lambda&gt;" in page
    assert "<lambda>" not in page
