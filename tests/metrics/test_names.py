"""Names of metrics."""

import re

import pytest

from songrank.metrics import evaluate_lists
from songrank.metrics.names import Metric, parse_metrics
from tests.metrics.small_lists import LABELS, SCORES


def test_names_are_read_with_and_without_a_cutoff():
    names = ["ndcg@10", "mrr", "map@5", "precision@5", "recall@20", "hit_rate@10", "dcg@3"]
    assert [str(metric) for metric in parse_metrics(names)] == names
    assert parse_metrics("ndcg@7") == (Metric("ndcg", 7),)
    assert parse_metrics(["mrr", "mrr"]) == (Metric("mrr"),)


@pytest.mark.parametrize("name", ["auc", "ndcg@0", "ndcg@", "ndcg@ten", "NDCG@10", "ndcg@-1", "", 10, None])
def test_an_unknown_name_is_answered_with_what_there_is(name):
    message = f"metric is {name!r}; expected one of dcg, ndcg, mrr, map, precision, recall, hit_rate"
    with pytest.raises(ValueError, match=re.escape(message)):
        evaluate_lists(SCORES, LABELS, metrics=[name])


def test_no_name_at_all_is_refused():
    with pytest.raises(ValueError, match="metrics is \\(\\); expected at least one of dcg, ndcg"):
        evaluate_lists(SCORES, LABELS, metrics=())
