"""Matrix factorisation."""

import pytest
import torch

from songrank.models import MatrixFactorisation


@pytest.mark.parametrize("bias", [False, True])
def test_scores_are_products_of_factors_plus_the_bias_of_the_item(bias):
    torch.manual_seed(0)
    model = MatrixFactorisation(3, 5, dim=4, bias=bias)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    user, table = torch.tensor([2, 0]), model.item_layer.weight
    wanted = torch.tensor(
        [[(model.query_vectors(user)[row] @ table[item]).item() for item in range(5)] for row in range(2)]
    )
    if bias:
        wanted = wanted + model.item_bias
    torch.testing.assert_close(model.score_all(user), wanted)
    assert (model.item_bias is not None) == bias


def test_a_new_head_forgets_popularity_and_keeps_the_factors():
    model = MatrixFactorisation(3, 5, dim=4)
    torch.nn.init.normal_(model.item_bias)
    before = model.item_layer.weight.clone()
    model.reset_head()
    assert not model.item_bias.any()
    assert torch.equal(model.item_layer.weight, before)
