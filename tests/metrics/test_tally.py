"""Values per query, collected block by block."""

import math

import pytest
import torch

from songrank.metrics.names import parse_metrics
from songrank.metrics.spans import Spans
from songrank.metrics.tally import Tally, reduce_queries


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
