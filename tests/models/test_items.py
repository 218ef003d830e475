"""Scores of items by rows of a table."""

import pytest
import torch

from songrank.models import _items

QUERY, TABLE, BIAS = (
    torch.randn(*shape, generator=torch.Generator().manual_seed(1)) for shape in ((3, 4), (7, 4), (7,))
)


@pytest.mark.parametrize("item", [[[0, 6, 3]], [[0, 6, 3], [1, 1, 2], [5, 4, 0]]], ids=["shared", "own"])
@pytest.mark.parametrize("bias", [None, BIAS], ids=["no-bias", "bias"])
@pytest.mark.parametrize("sparse", [False, True])
def test_scores_and_gradients_are_those_of_plain_products(item, bias, sparse):
    item = torch.tensor(item)
    embedding = torch.nn.Embedding.from_pretrained(TABLE.clone(), freeze=False, sparse=sparse)
    found = _items.item_scores(QUERY, embedding, item, bias)
    table = TABLE.clone().requires_grad_()
    every = QUERY @ table.T + (0 if bias is None else bias)
    wanted = every.gather(1, item.expand(3, -1))
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(_items.column_scores(every, item), wanted)
    found.square().sum().backward()
    wanted.square().sum().backward()
    gradient = embedding.weight.grad
    torch.testing.assert_close(gradient.to_dense() if sparse else gradient, table.grad)
