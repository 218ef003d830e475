"""What list losses are made of: NeuralSort, Sinkhorn, Gumbel noise."""

import pytest
import torch

from songrank import functional as F
from tests.functional.list_loss_table import LOSSES, batch, value_and_gradient
from tests.oracles import formulas as oracles


def test_neural_sort_gives_rows_that_sum_to_one_and_nothing_to_padding():
    scores, _, mask = batch(3, seed=9)
    matrix = F.neural_sort(scores, mask=mask, temperature=0.7)
    for row in range(3):
        there = mask[row].nonzero().flatten()
        want = torch.zeros(6, 6, dtype=torch.float64)
        values = oracles.neural_sort(scores[row, there].tolist(), 0.7)
        want[: len(there), there] = torch.tensor(values, dtype=torch.float64)
        torch.testing.assert_close(matrix[row], want, rtol=1e-10, atol=1e-14)


def test_neural_sort_at_a_low_temperature_sorts():
    scores = torch.tensor([0.5, 3.0, -1.0, 2.0], dtype=torch.float64)
    want = torch.eye(4, dtype=torch.float64)[[1, 3, 0, 2]]
    torch.testing.assert_close(F.neural_sort(scores, temperature=1e-3), want)


@pytest.mark.parametrize("length", [2, 5])
def test_neural_ndcg_has_a_finite_gradient_whatever_the_number_of_padded_columns(length):
    scores, labels, _ = batch(2, length=length, seed=12)
    want, want_gradient = value_and_gradient(LOSSES[12], scores, labels)
    for pad in (1, 2, 7):
        filled = torch.nn.functional.pad(scores, (0, pad))
        mask = torch.nn.functional.pad(torch.ones_like(scores, dtype=torch.bool), (0, pad))
        value, gradient = value_and_gradient(LOSSES[12], filled, torch.nn.functional.pad(labels, (0, pad)), mask=mask)
        torch.testing.assert_close(value, want, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(gradient[:, :length], want_gradient, rtol=1e-8, atol=1e-10)
