"""Figures of recommended items, against plain loops."""

import math
import random
from itertools import combinations

import pytest
import torch

from songrank import Relevance
from songrank.metrics import list_figures, recommended, top_items


def pairs(seed, users=7, items=12):
    rng = random.Random(seed)
    return [(user, item) for user in range(users) for item in rng.sample(range(items), rng.randint(1, 5))]


def relevance(found, users=7, items=12, **more):
    return Relevance.from_pairs([user for user, _ in found], [item for _, item in found], None, users, items, **more)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cells", [1, 2**24])
def test_top_items_are_the_best_that_are_left(seed, cells, monkeypatch):
    monkeypatch.setattr(recommended, "_CELLS", cells)
    seen, rng = set(pairs(seed)), random.Random(seed)
    held = [(user, rng.choice([item for item in range(12) if (user, item) not in seen])) for user in range(1, 7)]
    scores = torch.randn(7, 12, generator=torch.Generator().manual_seed(seed))
    before = scores.clone()
    targets = relevance(held, exclude=([user for user, _ in seen], [item for _, item in seen]))
    for k in (3, 20):
        found = top_items(lambda query: scores[query], targets, k)
        for row, (user, _) in enumerate(held):
            left = [item for item in range(12) if (user, item) not in seen]
            best = sorted(left, key=lambda item: -float(scores[user, item]))[:k]
            assert found[row].tolist() == best + [-1] * (k - len(best))
    assert torch.equal(scores, before)


@pytest.mark.parametrize("seed", range(5))
def test_figures_of_plain_loops(seed, monkeypatch):
    monkeypatch.setattr(recommended, "_PAIRS", 1)
    train, rng = pairs(seed), random.Random(seed)
    lists = [rng.sample(range(12), rng.randint(0, 4)) for _ in range(7)]
    vectors = [[rng.choice([0.0, 1.0, 2.0]) for _ in range(3)] for _ in range(12)]
    top = torch.tensor([found + [-1] * (4 - len(found)) for found in lists])
    found = list_figures(top, relevance(train), torch.tensor(vectors))
    lists = [one for one in lists if one]
    users = {item: sum(other == item for _, other in train) for item in range(12)}
    counts = [sum(item in one for one in lists) for item in range(12)]
    differences = sum(abs(a - b) for a in counts for b in counts)
    flat = [item for one in lists for item in one]
    novelty = [sum(-math.log2(max(users[item], 1) / 7) for item in one) / len(one) for one in lists]
    profile = sum(users[item] for _, item in train) / len(train)
    assert (found.k, found.users) == (4, len(lists))
    assert found.coverage == pytest.approx(len(set(flat)) / 12)
    assert found.gini == pytest.approx(differences / (2 * 12 * sum(counts)))
    assert found.novelty == pytest.approx(sum(novelty) / len(novelty))
    assert found.popularity_lift == pytest.approx(sum(users[item] for item in flat) / len(flat) / profile - 1)

    def distance(a, b):
        sizes = math.hypot(*vectors[a]) * math.hypot(*vectors[b])
        return 1 - (sum(x * y for x, y in zip(vectors[a], vectors[b], strict=True)) / sizes if sizes else 0.0)

    each = [[distance(a, b) for a, b in combinations(one, 2)] for one in lists if len(one) > 1]
    assert found.diversity == pytest.approx(sum(sum(one) / len(one) for one in each) / len(each))


def test_without_features_or_lists_there_is_no_figure():
    train = relevance(pairs(0))
    assert "diversity@2" not in list_figures(torch.tensor([[0, 1]]), train).values()
    empty = list_figures(torch.full((3, 2), -1), train)
    assert (empty.users, empty.coverage) == (0, 0.0)
    assert all(math.isnan(value) for value in (empty.gini, empty.novelty, empty.popularity_lift))


def test_the_same_items_for_all_users_are_concentrated_and_all_items_equally_are_not():
    train = relevance(pairs(0))
    same = list_figures(torch.tensor([[0, 1]] * 6), train)
    spread = list_figures(torch.arange(12).reshape(6, 2), train)
    assert (same.gini, spread.gini) == (pytest.approx(1 - 2 / 12), pytest.approx(0.0))
    assert (same.coverage, spread.coverage) == (pytest.approx(2 / 12), 1.0)
