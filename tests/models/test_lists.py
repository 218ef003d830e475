"""Input of list models."""

import pytest
import torch

from songrank.models._lists import read_lists


def test_padding_is_cleared_and_a_shared_mask_is_expanded():
    features = torch.full((2, 3, 1), torch.nan, dtype=torch.float64)
    features[:, :2] = 1.0
    found, mask = read_lists(features, torch.tensor([[True, True, False]]), 1, torch.float32)
    assert found.dtype == torch.float32
    assert found[..., 0].tolist() == [[1.0, 1.0, 0.0]] * 2
    assert mask.tolist() == [[True, True, False]] * 2


@pytest.mark.parametrize(
    ("features", "mask", "error", "message"),
    [
        ([[0.0]], torch.ones(1, 1, dtype=torch.bool), TypeError, "^features is 'list'"),
        (torch.zeros(1, 2, 4), torch.ones(1, 2, dtype=torch.bool), ValueError, r"expected \[B, L, F\] with F=3$"),
        (torch.zeros(2, 2, 3), torch.ones(3, 2, dtype=torch.bool), ValueError, r"^mask has shape \[3, 2\]"),
        (torch.zeros(2, 2, 3), torch.ones(2, 2), TypeError, "^mask is torch.float32; expected type torch.bool$"),
        (torch.zeros(2, 2, 3), None, TypeError, "^mask is 'NoneType'"),
    ],
)
def test_wrong_input_is_rejected(features, mask, error, message):
    with pytest.raises(error, match=message):
        read_lists(features, mask, 3, torch.float32)
