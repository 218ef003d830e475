"""Runs of the theory experiments."""

import torch

from songrank_paper.theory.problem import (
    ITEMS,
    QUERIES,
)
from songrank_paper.theory.runs import Draws, Scorer
from tests.songrank_paper.theory.small_problem import PROBLEM
from tests.songrank_paper.theory.small_weights import weights


def test_runs_do_not_touch_each_other():
    alone, among = weights(4), weights(5, runs=3)
    among[1] = alone[0]
    torch.testing.assert_close(PROBLEM.gradient(among, top_k=True)[1], PROBLEM.gradient(alone, top_k=True)[0])


def test_slates_are_drawn_independently_and_uniformly():
    draws = Draws(PROBLEM, 5, 8, seeds=(3, 4))
    counts, items = torch.zeros(QUERIES), torch.zeros(ITEMS)
    repeated = 0
    last = None
    for slate in draws.steps(400):
        first = slate.query[:5]
        assert len(set(first.tolist())) == 5
        counts[first] += 1
        chosen = slate.item[:5, 6:]
        assert bool((slate.label[:5, 6:] == 0).all())
        items += torch.bincount(chosen.reshape(-1), minlength=ITEMS)
        repeated += 0 if last is None else len(set(first.tolist()) & last)
        last = set(first.tolist())
        assert bool((slate.query[5:] >= QUERIES).all())
    expected = 400 * 5 / QUERIES
    assert float((counts - expected).abs().max()) < 5 * expected**0.5
    # Drawn once an epoch, a query would come again in the next step only across an epoch's end.
    assert 120 < repeated < 280
    # How often an item can be irrelevant differs a little between items.
    assert float((items / items.mean() - 1).abs().max()) < 0.5


def test_copies_see_the_same_slates_with_pairs_of_their_own():
    plain = next(iter(Draws(PROBLEM, 5, 8, seeds=(3,)).steps(1)))
    copied = next(iter(Draws(PROBLEM, 5, 8, seeds=(3,)).steps(1, copies=2)))
    assert torch.equal(copied.item, plain.item.repeat(2, 1))
    assert torch.equal(copied.pair[5:], plain.pair + 300)
    assert torch.equal(copied.query[5:], plain.query + QUERIES)
    relevant = PROBLEM.relevance.item[plain.pair.reshape(-1)].view(5, 6)
    assert torch.equal(relevant.long(), plain.item[:, :6])


def test_the_scorer_gives_each_run_the_problems_scores():
    scorer = Scorer(PROBLEM, copies=2, seeds=1)
    both = weights(6, runs=2)
    with torch.no_grad():
        for own, value in zip(scorer.runs, both, strict=True):
            own.copy_(value)
    slate = next(iter(Draws(PROBLEM, 5, 8, seeds=(3,)).steps(1, copies=2)))
    exact = PROBLEM.scores(both)
    wanted = torch.stack([exact[q // QUERIES, q % QUERIES, i] for q, i in zip(slate.query, slate.item, strict=True)])
    torch.testing.assert_close(scorer(slate.query, slate.item), wanted)
