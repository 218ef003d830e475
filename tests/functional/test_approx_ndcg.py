"""ApproxNDCG and its Gumbel form."""

import math

import pytest
import torch

from songrank import functional as F
from tests.functional.list_loss_table import batch


def test_gumbel_noise_of_scale_zero_changes_nothing():
    scores, labels, mask = batch(3, seed=10)
    plain = F.approx_ndcg_loss(scores, labels, mask=mask)
    torch.testing.assert_close(F.gumbel_approx_ndcg_loss(scores, labels, mask=mask, scale=0.0, samples=2), plain)


def test_gumbel_noise_that_is_not_given_comes_from_torchs_generator():
    scores, labels, mask = batch(3, seed=11)
    torch.manual_seed(5)
    first = F.gumbel_approx_ndcg_loss(scores, labels, mask=mask, samples=4)
    other = F.gumbel_approx_ndcg_loss(scores, labels, mask=mask, samples=4)
    torch.manual_seed(5)
    again = F.gumbel_approx_ndcg_loss(scores, labels, mask=mask, samples=4)
    assert first == again
    assert first != other


def test_gumbel_noise_of_another_shape_is_refused():
    scores, labels, _ = batch(3)
    with pytest.raises(ValueError, match="noise"):
        F.gumbel_approx_ndcg_loss(scores, labels, noise=torch.zeros(2, 3, 5))


def test_gumbel_of_uniform_numbers_is_minus_log_of_minus_log_and_finite_at_both_ends():
    from songrank.functional.approx_ndcg import gumbel

    uniform = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    want = torch.tensor([-math.log(-math.log(u)) for u in (0.1, 0.5, 0.9)], dtype=torch.float64)
    torch.testing.assert_close(gumbel(uniform), want, rtol=1e-12, atol=0.0)
    assert gumbel(torch.tensor([0.0, 1.0])).isfinite().all()
