"""NDCG terms of a slate."""

import math

import torch

from songrank import Slate
from songrank.functional.ndcg import slate_ndcg_terms


def terms(u, rank_offset):
    """f(u) and f′(u) of the two relevant items of a list of four."""
    u = [u[0], 1.0, u[1], 1.0]
    slate = Slate.from_batch(torch.tensor([[2.0, 0.0, 1.0, 0.0]]), query=torch.tensor([0]))
    found = slate_ndcg_terms(torch.tensor([u], dtype=torch.float64), slate, lowest=1.0, rank_offset=rank_offset)
    return [part[:, [0, 2]] for part in found]


def test_terms_of_exact_ranks_sum_to_minus_ndcg():
    value, _ = terms([2 / 4, 1 / 4], 0.0)
    ideal = 3 + 1 / math.log2(3)
    torch.testing.assert_close(value.sum().item(), -(3 / math.log2(3) + 1) / ideal, rtol=1e-6, atol=0)


def test_the_slope_is_the_derivative():
    step, u = 1e-6, [0.6, 0.4]
    for at in (0, 1):
        ends = [terms([one + sign * step * (place == at) for place, one in enumerate(u)], None)[0] for sign in (1, -1)]
        numeric = (ends[0] - ends[1])[0, at] / (2 * step)
        torch.testing.assert_close(terms(u, None)[1][0, at], numeric, rtol=1e-5, atol=1e-8)


def test_a_rank_is_never_better_than_the_items_own_comparison():
    torch.testing.assert_close(terms([0.0, 0.1], 0.0)[0], terms([0.25, 0.25], 0.0)[0])


def test_the_default_offset_is_the_square_root_of_the_list_size():
    torch.testing.assert_close(terms([0.6, 0.4], None), terms([0.6, 0.4], 2.0))
