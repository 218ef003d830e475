"""Noise of Gumbel-ApproxNDCG: it depends on seed, step, query and item alone."""

import torch

from songrank import Slate
from songrank.losses import ApproxNDCG, GumbelApproxNDCG
from songrank.losses.registry import LOSSES

LABELS = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 3.0, 0.0, 1.0]])
SCORES = torch.tensor([[0.3, 1.0, -0.5, 0.2], [0.1, 0.0, 0.4, -1.0]])


def slate(order=(0, 1)):
    rows = list(order)
    return Slate.from_batch(LABELS[rows], query=torch.tensor(rows)), SCORES[rows]


def value(loss, order=(0, 1)):
    batch, scores = slate(order)
    return loss(scores, batch)


def test_it_is_registered():
    assert LOSSES["gumbel-approx-ndcg"] is GumbelApproxNDCG


def test_without_noise_it_is_approx_ndcg():
    torch.testing.assert_close(value(GumbelApproxNDCG(scale=0.0)), value(ApproxNDCG()))


def test_each_training_step_draws_new_noise_and_evaluation_keeps_it():
    loss = GumbelApproxNDCG()
    assert value(loss) != value(loss)
    loss.eval()
    assert value(loss) == value(loss)


def test_the_order_of_queries_changes_nothing():
    torch.testing.assert_close(value(GumbelApproxNDCG()), value(GumbelApproxNDCG(), (1, 0)))


def test_seeds_draw_different_noise_and_a_saved_step_resumes():
    assert value(GumbelApproxNDCG(seed=0)) != value(GumbelApproxNDCG(seed=1))
    one, other = GumbelApproxNDCG(), GumbelApproxNDCG()
    value(one)
    other.load_state_dict(one.state_dict())
    assert value(one) == value(other)
