"""Features of items or users as numbers."""

import pytest
import torch

from songrank.core.feature_rows import FeatureRows


def rows():
    trained = torch.tensor([True, False, True])
    entries = torch.tensor([2, 0, 1]), torch.tensor([0, 3, 4]), torch.tensor([1.0, 2.0, 3.0])
    return FeatureRows.of(torch.arange(6.0).view(3, 2), *entries, width=5, trained=trained)


def as_dense(some):
    matrix = torch.zeros(len(some), some.width)
    for row in range(len(some)):
        entries = slice(*some.offsets[row : row + 2].tolist())
        matrix[row, some.index[entries]] += some.value[entries]
    return torch.cat([some.dense, matrix, some.trained.unsqueeze(1)], dim=1)


def test_rows_are_taken_in_any_order_and_repeated():
    order = torch.tensor([2, 0, 1, 2])
    torch.testing.assert_close(as_dense(rows().take(order)), as_dense(rows())[order])


def test_parts_are_concatenated():
    whole = FeatureRows.concatenate([rows().take(torch.tensor([1])), rows()])
    torch.testing.assert_close(as_dense(whole), as_dense(rows())[[1, 0, 1, 2]])


def test_empty_rows_have_the_given_sizes():
    assert FeatureRows.empty(rows().sizes()).sizes() == rows().sizes()
    with pytest.raises(ValueError, match="sizes of features"):
        FeatureRows.empty({**rows().sizes(), "rows": -1})


@pytest.mark.parametrize(
    "wrong",
    [
        {"index": torch.tensor([0, 3, 5])},
        {"index": torch.tensor([0, 3, -1])},
        {"offsets": torch.tensor([0, 2, 1, 3])},
        {"offsets": torch.tensor([0, 2, 2, 2])},
        {"value": torch.ones(2)},
        {"trained": torch.ones(2, dtype=torch.bool)},
    ],
)
def test_inconsistent_arrays_are_detected(wrong):
    good = rows()
    assert good.is_valid()
    assert not FeatureRows(**{**good.tensors(), "width": good.width, **wrong}).is_valid()
