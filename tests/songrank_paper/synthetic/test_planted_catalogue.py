"""Catalogues of synthetic items."""

import numpy as np
import pytest
import torch

from songrank_paper.synthetic import draw_pairs, make_plan, planted_scores
from songrank_paper.synthetic.numbers import BLOCK, stream
from songrank_paper.synthetic.planted_catalogue import Catalogue, _by_draws, _by_keys


@pytest.mark.parametrize("pairs", [700, 700 * 8])
def test_a_catalogue_that_is_all_but_used_up_works(pairs):
    plan = make_plan(queries=100, items=56, pairs=min(pairs, 100 * 56), holdout=3)
    made = np.concatenate([block.item for block in draw_pairs(plan)])
    counts = np.concatenate([block.counts for block in draw_pairs(plan)])
    key = np.repeat(np.arange(100), counts) * 56 + made
    assert np.unique(key).shape[0] == made.shape[0] == plan.pairs
    assert np.unique(made).shape[0] == 56


def test_noise_of_one_leaves_nothing_but_popularity():
    scores = planted_scores(make_plan(noise=1.0))(torch.tensor([0, 1, 2]))
    torch.testing.assert_close(scores[0], scores[1])
    torch.testing.assert_close(scores[0], scores[2])


def test_both_ways_to_take_items_without_replacement_draw_alike():
    catalogue = Catalogue.draw(items=400, strength=1.0, seed=0, purpose="test")
    chances = catalogue.chances(stream(0, "taste").standard_normal((1, 8), dtype=np.float32), noise=0.1).repeat(
        BLOCK, 0
    )
    none, counts, rng = np.zeros(0, np.int64), np.full(BLOCK, 12), stream(0, "test")
    drawn = np.concatenate([_by_draws(catalogue, chances, counts, none, none, rng)[1] for _ in range(8)])
    weight = catalogue.weights(chances[0])
    weighed = np.concatenate([_by_keys(weight, 12, none, rng) for _ in range(8 * BLOCK)])
    assert drawn.shape[0] > 0.95 * weighed.shape[0]
    rates = [np.bincount(items, minlength=400) / (items.shape[0] / 12) for items in (drawn, weighed)]
    error = np.sqrt((rates[0] + rates[1]) / (8 * BLOCK)) + 1e-3
    assert np.abs((rates[0] - rates[1]) / error).max() < 4.5
