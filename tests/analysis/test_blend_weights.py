"""Weights of blends against brute force in plain Python."""

import itertools
import math

import numpy as np
import pytest
import torch

from songrank import Relevance
from songrank.analysis.blend_weights import choose_list_weights, choose_weights
from tests.oracles.metrics import oracle

QUERIES, ITEMS = 40, 30


def task(members, seed=0):
    """Scores of members that each know a part of what makes an item relevant, and the relevant items."""
    random = np.random.default_rng(seed)
    signals = random.normal(size=(members, QUERIES, ITEMS))
    total = np.tensordot([0.5, 0.3, 0.2, 0.1][:members], signals, 1) + 0.1 * random.normal(size=(QUERIES, ITEMS))
    best = np.argsort(-total, 1)[:, :3]
    query, item = np.arange(QUERIES).repeat(3), best.reshape(-1)
    seen = [(q, int(i)) for q in range(QUERIES) for i in random.permutation(ITEMS)[:4] if i not in best[q]]
    scales = [(7.0, 100.0), (0.01, 0.0), (1.0, -3.0), (2.0, 1.0)][:members]
    scores = [
        torch.from_numpy(scale * part + shift).float() for part, (scale, shift) in zip(signals, scales, strict=True)
    ]
    exclude = ([q for q, _ in seen], [i for _, i in seen])
    return scores, Relevance.from_pairs(query, item, num_queries=QUERIES, num_items=ITEMS, exclude=exclude), best, seen


def value(scores, weights, best, seen, queries=range(QUERIES)):
    """NDCG@10 of a blend by query, from the definitions."""
    barred, found = set(seen), []
    for query in queries:
        mixed = [0.0] * ITEMS
        for part, weight in zip(scores, weights, strict=True):
            row = part[query].double().tolist()
            mean = sum(row) / ITEMS
            deviation = math.sqrt(sum((one - mean) ** 2 for one in row) / ITEMS)
            mixed = [total + weight * (one - mean) / deviation for total, one in zip(mixed, row, strict=True)]
        kept = [item for item in range(ITEMS) if (query, item) not in barred]
        labels = [float(item in best[query]) for item in kept]
        found.append(oracle("ndcg", [mixed[item] for item in kept], labels, k=10))
    return found


def functions(scores):
    return [lambda query, part=part: part[query] for part in scores]


def grid(members):
    return [
        tuple(part / 20 for part in parts) for parts in itertools.product(range(21), repeat=members) if sum(parts) == 20
    ]


def test_weights_of_two_members_are_the_best_of_the_grid():
    scores, targets, best, seen = task(2)
    means = {weights: sum(value(scores, weights, best, seen)) / QUERIES for weights in grid(2)}
    found = choose_weights(functions(scores), targets, "ndcg@10")
    assert means[found.weights] == pytest.approx(max(means.values()))
    assert found.value == pytest.approx(max(means.values()))
    assert found.alone == pytest.approx((means[1.0, 0.0], means[0.0, 1.0]))
    assert found.num_queries == QUERIES
    winner = found.best_member
    alone = value(scores, (1.0 - winner, float(winner)), best, seen)
    by_query = np.array(value(scores, found.weights, best, seen)) - np.array(alone)
    assert found.difference.mean == pytest.approx(by_query.mean())
    assert found.difference.standard_error == pytest.approx(by_query.std(ddof=1) / math.sqrt(QUERIES))
    assert found.difference.low > 0


def test_weights_of_three_members_are_found_by_passes():
    scores, targets, best, seen = task(3)
    calls = []

    def counted(query):
        calls.append(len(query))
        return scores[0][query]

    found = choose_weights([counted, *functions(scores)[1:]], targets, "ndcg@10")
    means = {weights: sum(value(scores, weights, best, seen)) / QUERIES for weights in grid(3)}
    assert found.value == pytest.approx(means[found.weights])
    assert found.value == pytest.approx(max(means.values()))
    assert len(calls) <= 8  # one per pass


def test_a_useless_member_has_no_weight():
    scores, targets, _, _ = task(2)
    useless = torch.zeros(QUERIES, ITEMS)
    assert choose_weights(functions([scores[0], useless]), targets).weights == (1.0, 0.0)
    assert choose_weights(functions([scores[0], scores[0]]), targets).weights == (1.0, 0.0)
    found = choose_weights(functions([useless, scores[0]]), targets)
    assert found.weights == (0.0, 1.0)
    assert (found.difference.mean, found.difference.standard_error) == (0.0, 0.0)


def test_given_weights_are_measured():
    scores, targets, best, seen = task(2)
    found = choose_weights(functions(scores), targets, weights=[0.9, 0.1])
    assert found.weights == (0.9, 0.1)
    assert found.value == pytest.approx(sum(value(scores, (0.9, 0.1), best, seen)) / QUERIES)


def test_chunks_do_not_change_the_choice_and_a_sample_is_the_same_each_time():
    scores, targets, best, seen = task(2)
    whole, few = choose_weights(functions(scores), targets), []

    def noted(query):
        few.append(query)
        return scores[0][query]

    small = choose_weights([noted, functions(scores)[1]], targets, memory=1)
    assert (small.weights, small.value) == (whole.weights, pytest.approx(whole.value))
    assert max(map(len, few)) == 1
    few.clear()
    part = choose_weights([noted, functions(scores)[1]], targets, queries=10)
    asked = sorted({int(query) for some in few for query in some})
    assert part.num_queries == len(asked) == 10
    expected = value(scores, part.weights, best, seen, asked)
    assert part.value == pytest.approx(sum(expected) / 10)
    assert choose_weights(functions(scores), targets, queries=10).value == part.value
    assert choose_weights(functions(scores), targets, queries=10, seed=1).value != part.value


def test_weights_of_lists_are_the_best_of_the_grid():
    random = np.random.default_rng(3)
    lengths = [int(length) for length in random.integers(1, 9, 30)]
    signals = random.normal(size=(2, sum(lengths)))
    labels = (signals.sum(0) > 1).astype(float)
    scores = [torch.from_numpy(5 * signals[0] + 3).float(), torch.from_numpy(signals[1]).float()]
    means = {}
    for weights in grid(2):
        first, values = 0, []
        for length in lengths:
            part, mixed = slice(first, first + length), np.zeros(length)
            for own, weight in zip(scores, weights, strict=True):
                row = own[part].double().numpy()
                mixed += weight * (row - row.mean()) / row.std() if length > 1 else 0
            if labels[part].any():
                values.append(oracle("ndcg", mixed.round(6).tolist(), labels[part].tolist(), k=5))
            first += length
        means[weights] = sum(values) / len(values)
    found = choose_list_weights(scores, torch.from_numpy(labels).float(), torch.tensor(lengths), "ndcg@5")
    assert found.value == pytest.approx(max(means.values()))
    assert means[found.weights] == pytest.approx(found.value)
    assert found.alone == pytest.approx((means[1.0, 0.0], means[0.0, 1.0]))


def test_mistakes():
    scores, targets, _, _ = task(2)
    with pytest.raises(ValueError, match="weights is .*; expected one number of at least 0 per member"):
        choose_weights(functions(scores), targets, weights=[0.3, 0.3])
    with pytest.raises(ValueError, match="step is 0.7; expected"):
        choose_weights(functions(scores), targets, step=0.7)
    with pytest.raises(ValueError, match="number of members is 0"):
        choose_weights([], targets)
    with pytest.raises(ValueError, match="metric is 'auc'"):
        choose_weights(functions(scores), targets, "auc")
