"""Drawing items without replacement."""

import numpy as np

from songrank.data.synthetic.numbers import BLOCK, stream
from songrank.data.synthetic.planted_catalogue import Catalogue, draw_tastes
from songrank.data.synthetic.takers import _by_draws, _by_keys


def test_both_ways_to_take_items_without_replacement_draw_alike():
    catalogue = Catalogue.draw(items=400, strength=1.0, seed=0, purpose="test")
    chances = catalogue.chances(draw_tastes(1, seed=0), noise=0.1).repeat(BLOCK, 0)
    none, counts, rng = np.zeros(0, np.int64), np.full(BLOCK, 12), stream(0, "test")
    drawn = np.concatenate([_by_draws(catalogue, chances, counts, none, none, rng)[1] for _ in range(8)])
    weight = catalogue.weights(chances[0])
    weighed = np.concatenate([_by_keys(weight, 12, none, rng) for _ in range(8 * BLOCK)])
    assert drawn.shape[0] > 0.95 * weighed.shape[0]
    rates = [np.bincount(items, minlength=400) / (items.shape[0] / 12) for items in (drawn, weighed)]
    error = np.sqrt((rates[0] + rates[1]) / (8 * BLOCK)) + 1e-3
    assert np.abs((rates[0] - rates[1]) / error).max() < 4.5
