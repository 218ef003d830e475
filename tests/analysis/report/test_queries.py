"""The best and worst queries: their values follow from the ranks that are shown for them."""

import math

import pytest
import torch

from songrank.analysis.report.contents import gather
from songrank.analysis.report.queries import best_and_worst


def test_order_ties_and_queries_that_do_not_count():
    values = torch.tensor([0.5, math.nan, 1.0, 0.0, 0.0, 1.0, 0.2])
    relevant = torch.tensor([1, 1, 1, 0, 1, 2, 1])  # the fourth is empty: its 0 is a policy's
    assert best_and_worst(values, relevant, float, 2) == ([5, 2], [4, 6])
    assert best_and_worst(values, relevant, float, 9) == ([5, 2, 0], [4, 6])
    some = torch.tensor([0.5, 1.0, 0.0, 1.0]), torch.tensor([1, 1, 0, 2])
    assert best_and_worst(*some, float, count=1) == ([3], [0])
    assert best_and_worst(values[:0], relevant[:0], float) == ([], [])
    assert best_and_worst(values[:1], relevant[:1], float) == ([0], [])


def test_the_worst_of_many_zeros_are_those_ranked_lowest():
    values, relevant = torch.zeros(1000), torch.ones(1000, dtype=torch.long)
    values[7], values[500:] = -1.0, 0.5
    asked = []

    def first_rank(query):
        asked.append(query)
        return float(1000 - query if query < 300 else query)

    assert best_and_worst(values, relevant, first_rank, 3)[1] == [7, 0, 3]  # evenly spaced: 0, 3, 5, …
    assert len(asked) <= 201
    assert len(set(asked)) == len(asked)
    few = best_and_worst(values[480:520], relevant[480:520], lambda query: query % 7, 4)
    assert few == ([20, 21, 22, 23], [6, 13, 5, 12])


@pytest.mark.parametrize("task", ["recommendation", "search", "labelling"])
def test_a_query_s_metric_is_that_of_the_ranks_shown(finished, task):
    """NDCG@5 by hand from ranks and labels: every relevant item is shown, as each list has few."""
    run = finished[task]
    extremes = gather([run.directory.path]).groups[0].extremes
    assert extremes.metric == "ndcg@5"
    assert [len(extremes.best), len(extremes.worst)] == [5, 5]
    order = [(query.value, -min(item.rank for item in query.relevant)) for query in extremes.worst]
    assert order == sorted(order)
    for query in (*extremes.best, *extremes.worst):
        assert len(query.relevant) == query.num_relevant
        found = sum((2**item.label - 1) / math.log2(1 + item.rank) for item in query.relevant if item.rank <= 5)
        best = sorted((2**item.label - 1 for item in query.relevant), reverse=True)[:5]
        ideal = sum(gain / math.log2(2 + at) for at, gain in enumerate(best))
        assert query.value == pytest.approx(found / ideal)
        assert [item.rank for item in query.top] == list(range(1, len(query.top) + 1))
        shown = {item.item: item for item in query.relevant}
        assert all((item.label > 0) == (item.item in shown) for item in query.top)


def test_ids_are_the_original_ones_and_what_was_seen_is_not_ranked(finished):
    run = finished["recommendation"]
    dataset = run.dataset
    extremes = gather([run.directory.path]).groups[0].extremes
    for query in (*extremes.best, *extremes.worst):
        number = list(dataset.query_ids).index(int(query.query))
        train = dataset["train"]
        seen = train.item[int(train.offsets[number]) : int(train.offsets[number + 1])]
        assert not {str(dataset.item_ids[int(item)]) for item in seen} & {item.item for item in query.top}
        held = dataset["test"].item[int(dataset["test"].offsets[number])]
        assert query.relevant[0].item == str(dataset.item_ids[int(held)])
