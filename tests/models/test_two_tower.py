"""Two towers: similarities, temperature, and either side from ids or features."""

import pytest
import torch
from torch import nn

from songrank.models import TwoTower


def test_the_dot_product_is_divided_by_the_temperature():
    torch.manual_seed(0)
    model = TwoTower(3, 5, dim=4, temperature=0.25).double()
    expected = model.query_encoder.weight @ model.item_encoder.weight.T * 4
    assert torch.allclose(model.score_all(torch.arange(3)), expected)


def test_the_cosine_does_not_see_lengths():
    torch.manual_seed(0)
    model = TwoTower(3, 5, dim=4, similarity="cosine", temperature=0.5).double()
    expected = nn.functional.cosine_similarity(
        model.query_encoder.weight.unsqueeze(1), model.item_encoder.weight.unsqueeze(0), dim=-1
    )
    scores = model.score_all(torch.arange(3))
    assert torch.allclose(scores, 2 * expected)
    with torch.no_grad():
        model.item_encoder.weight.mul_(7.0)
    assert torch.allclose(model.score_all(torch.arange(3)), scores)


def test_only_the_items_asked_for_are_encoded_where_they_are_few():
    rows = []

    class Counting(nn.Linear):
        def forward(self, x):
            rows.append(x[..., 0].numel())
            return super().forward(x)

    model = TwoTower(query_encoder=nn.Linear(2, 4), item_encoder=Counting(3, 4), item_features=torch.randn(20, 3))
    model(torch.randn(3, 2), torch.zeros(3, 5, dtype=torch.int64))
    model(torch.randn(3, 2), torch.zeros(3, 9, dtype=torch.int64))
    model(torch.randn(3, 2), torch.zeros(1, 9, dtype=torch.int64))
    assert rows == [15, 20, 9]


def test_item_features_move_and_are_saved_with_the_model():
    model = TwoTower(4, item_encoder=nn.Linear(3, 64), item_features=torch.randn(20, 3))
    assert "item_features" in model.state_dict()
    assert model.double().item_features.dtype == torch.float64
    assert model.num_items == 20


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, r"num_queries and query_encoder is \(None, None\); expected one of them"),
        ({"num_queries": 3}, "num_items and item_encoder is"),
        ({"num_queries": 3, "num_items": 5, "item_encoder": nn.Linear(3, 4)}, "expected one of them"),
        ({"num_queries": 3, "item_encoder": nn.Linear(3, 4)}, "item_features is None; expected it with item_encoder"),
        ({"num_queries": 3, "num_items": 5, "item_features": torch.ones(5, 2)}, "item_features is 'given'"),
        ({"num_queries": 3, "item_encoder": nn.Linear(3, 4), "item_features": torch.ones(5)}, r"\[num_items, F\]"),
        ({"num_items": 5, "query_encoder": "bert"}, "query_encoder is 'str'; expected a torch.nn.Module"),
        ({"num_queries": 3, "num_items": 0}, "num_items is 0"),
        ({"num_queries": 3, "num_items": 5, "similarity": "l2"}, "one of 'dot', 'cosine'"),
        ({"num_queries": 3, "num_items": 5, "temperature": 0}, r"temperature is 0.0; expected a number in \(0, inf\)"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, words):
    with pytest.raises((ValueError, TypeError), match=words):
        TwoTower(**arguments)
