"""Histories as models read them."""

import pytest
import torch

from songrank.models._histories import check_history, last_items


def test_the_last_items_are_those_of_python_slices():
    rows = [[4, 5, 6, 7], [8], [], [1, 2, 3]]
    padded = torch.tensor([row + [-1] * (4 - len(row)) for row in rows])
    for length in (1, 2, 3, 4, 9):
        found, count = last_items(padded, length)
        assert count.tolist() == [min(len(row), length) for row in rows]
        assert [row[:n].tolist() for row, n in zip(found, count, strict=True)] == [row[-length:] for row in rows]
        assert found.shape[1] == min(length, 4)


@pytest.mark.parametrize(
    ("history", "error", "message"),
    [
        ([[1]], TypeError, "^history is 'list'; expected a tensor of items"),
        (torch.zeros(1, 2), TypeError, "^history is torch.float32"),
        (torch.zeros(2, dtype=torch.int64), ValueError, r"^history has shape \[2\]"),
    ],
)
def test_other_values_are_rejected(history, error, message):
    with pytest.raises(error, match=message):
        check_history(history)
