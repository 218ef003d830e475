"""Checks of what models read, and scores of items by rows of a table."""

import pytest
import torch

from songrank.models._inputs import (
    check_history,
    check_ids,
    check_item,
    column_scores,
    item_scores,
    last_items,
    read_lists,
    unit,
)


def test_wrong_ids_are_rejected():
    with pytest.raises(ValueError, match="^item has shape"):
        check_item(torch.zeros(2, 3, dtype=torch.int64), rows=3)
    with pytest.raises((TypeError, ValueError), match="^query "):
        check_ids(torch.zeros(2))


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
def test_other_histories_are_rejected(history, error, message):
    for check in (check_history, lambda rows: last_items(rows, 3)):
        with pytest.raises(error, match=message):
            check(history)


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
        (torch.zeros(2, 2, 3), torch.ones(2, 2), TypeError, "^mask is torch.float32; expected dtype torch.bool$"),
        (torch.zeros(2, 2, 3), None, TypeError, "^mask is 'NoneType'"),
    ],
)
def test_wrong_lists_are_rejected(features, mask, error, message):
    with pytest.raises(error, match=message):
        read_lists(features, mask, 3, torch.float32)


QUERY, TABLE, BIAS = (
    torch.randn(*shape, generator=torch.Generator().manual_seed(1)) for shape in ((3, 4), (7, 4), (7,))
)


@pytest.mark.parametrize("item", [[[0, 6, 3]], [[0, 6, 3], [1, 1, 2], [5, 4, 0]]], ids=["shared", "own"])
@pytest.mark.parametrize("bias", [None, BIAS], ids=["no-bias", "bias"])
@pytest.mark.parametrize("sparse", [False, True])
def test_scores_and_gradients_are_those_of_plain_products(item, bias, sparse):
    item = torch.tensor(item)
    embedding = torch.nn.Embedding.from_pretrained(TABLE.clone(), freeze=False, sparse=sparse)
    found = item_scores(QUERY, embedding, item, bias)
    table = TABLE.clone().requires_grad_()
    every = QUERY @ table.T + (0 if bias is None else bias)
    wanted = every.gather(1, item.expand(3, -1))
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(column_scores(every, item), wanted)
    found.square().sum().backward()
    wanted.square().sum().backward()
    gradient = embedding.weight.grad
    torch.testing.assert_close(gradient.to_dense() if sparse else gradient, table.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_unit_vectors_are_those_of_torch(dtype):
    vectors, weight = torch.randn(4, 3, 5, dtype=dtype), torch.randn(4, 3, 5, dtype=dtype)
    found = []
    for function in (unit, lambda x: torch.nn.functional.normalize(x, dim=-1)):
        given = vectors.clone().requires_grad_()
        (function(given) * weight).sum().backward()
        found.append((function(vectors), given.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
