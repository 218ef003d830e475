"""Catalogues of synthetic items."""

import numpy as np
import pytest
import torch

from songrank.data.synthetic import draw_pairs, make_plan, planted_scores


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
