"""Metrics of one list in plain Python floats, written from the definitions and from nothing in songrank."""

import itertools
import math

METRICS = ("dcg", "ndcg", "mrr", "map", "precision", "recall", "hit_rate")
AVERAGEABLE = ("dcg", "ndcg", "precision", "recall")


def oracle(name, scores, labels, k=None, ties="pessimistic", gain="exp2"):
    """Value of a list that has a relevant item."""
    if ties == "average":
        orders = [_ranks_of(order) for order in _sorted_orders(scores)]
        return sum(_value(name, ranks, labels, k, gain) for ranks in orders) / len(orders)
    if ties == "pessimistic":
        ranks = [sum(other >= own for other in scores) for own in scores]
    else:
        ranks = _ranks_of(sorted(range(len(scores)), key=lambda i: -scores[i]))
    return _value(name, ranks, labels, k, gain)


def _sorted_orders(scores):
    """Every order of the items in which no score goes up."""
    for order in itertools.permutations(range(len(scores))):
        if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order)):
            yield order


def _ranks_of(order):
    ranks = [0] * len(order)
    for place, item in enumerate(order, start=1):
        ranks[item] = place
    return ranks


def _value(name, ranks, labels, k, gain):
    cut = math.inf if k is None else k
    relevant = [rank for rank, label in zip(ranks, labels, strict=True) if label > 0]
    found = [rank for rank in relevant if rank <= cut]
    if name in ("dcg", "ndcg"):
        gains = [2.0**label - 1.0 if gain == "exp2" else float(label) for label in labels]
        total = sum(g / math.log2(1 + rank) for g, rank in zip(gains, ranks, strict=True) if rank <= cut)
        best = sorted(gains, reverse=True)[:k]
        return total / (1.0 if name == "dcg" else sum(g / math.log2(1 + i) for i, g in enumerate(best, start=1)))
    if name == "mrr":
        return 1.0 / min(found) if found else 0.0
    if name == "map":
        return sum(sum(other <= rank for other in relevant) / rank for rank in found) / len(relevant)
    if name == "precision":
        return len(found) / (len(labels) if k is None else k)
    if name == "recall":
        return len(found) / len(relevant)
    return 1.0 if found else 0.0
