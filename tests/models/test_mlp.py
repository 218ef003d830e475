"""Plain networks: sparse features give what dense ones give, and both what plain products give."""

import pytest
import torch

from songrank.models import LabelMLP, MLPScorer
from songrank.models._layers import FeatureLinear
from tests.models.small import FEATURES, bags, csr, dense


@pytest.mark.parametrize("hidden", [(), (8,), (8, 5)])
def test_sparse_texts_score_as_dense_ones_do_with_the_same_gradients(hidden):
    torch.manual_seed(0)
    model = LabelMLP(FEATURES, 9, hidden=hidden).double()
    wanted = model.score_all(dense(5).double())
    gradients = torch.autograd.grad(wanted.square().sum(), list(model.parameters()))
    short = (bags(5)[0].int(), bags(5)[1].int(), bags(5)[2])
    for query in (csr(5).double(), (*bags(5)[:2], bags(5)[2].double()), short):
        scores = model.score_all(query)
        assert torch.allclose(scores, wanted, atol=1e-10, rtol=0)
        for one, other in zip(
            torch.autograd.grad(scores.square().sum(), list(model.parameters())), gradients, strict=True
        ):
            assert torch.allclose(one, other, atol=1e-10, rtol=0)


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "tanh"])
def test_scores_are_products_bent_by_the_activation(activation):
    torch.manual_seed(0)
    bent = getattr(torch, activation, None) or getattr(torch.nn.functional, activation)
    model, features = LabelMLP(FEATURES, 9, hidden=(8, 5), activation=activation).double(), dense(4).double()
    first, second = model.body[0], model.body[-1][0][0]
    hidden = bent(bent(features @ first.weight + first.bias) @ second.weight.T + second.bias)
    assert torch.allclose(model.score_all(features), hidden @ model.head.weight.T + model.head.bias)

    scorer, mask = (
        MLPScorer(FEATURES, hidden=(8, 5), activation=activation).double(),
        torch.ones(1, 4, dtype=torch.bool),
    )
    hidden = features
    for block in scorer.body:
        hidden = bent(hidden @ block[0].weight.T + block[0].bias)
    expected = hidden @ scorer.head.weight[0] + scorer.head.bias
    assert torch.allclose(scorer(features.unsqueeze(0), mask)[0], expected)


def test_the_first_layer_starts_as_torchs_does():
    torch.manual_seed(0)
    layer = FeatureLinear(400, 300)
    assert 0.99 * 0.05 < layer.weight.abs().max() <= 0.05
    assert 0.9 * 0.05 < layer.bias.abs().max() <= 0.05


@pytest.mark.parametrize("hidden", [(), (4,)])
def test_a_head_may_start_from_zero(hidden):
    model = LabelMLP(FEATURES, 9, hidden=hidden, zero_head=True)
    others = {name: value.clone() for name, value in model.state_dict().items() if not name.startswith("head.")}
    assert not model.score_all(dense(4)).any()
    for parameter in model.head.parameters():
        torch.nn.init.normal_(parameter)
    model.reset_head()
    assert not model.score_all(dense(4)).any()
    assert all(torch.equal(model.state_dict()[name], value) for name, value in others.items())


def test_a_linear_model_has_one_layer():
    assert [key for key, _ in LabelMLP(FEATURES, 9, hidden=()).named_parameters()] == ["head.weight", "head.bias"]
    assert [key for key, _ in MLPScorer(FEATURES, hidden=()).named_parameters()] == ["head.weight", "head.bias"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (torch.zeros(2, 4), r"query has shape \[2, 4\]; expected features, of shape \[B, 6\]"),
        (torch.zeros(2, 4).to_sparse_csr(), r"query has shape \[2, 4\]"),
        (torch.zeros(2, 6).to_sparse(), "query is torch.sparse_coo; expected dense rows"),
        ((torch.tensor([0]), torch.tensor([0, 1])), r"expected .*\(indices, offsets, values\)"),
        ((torch.tensor([0, 1]), torch.tensor([0, 2]), torch.ones(3)), "values is '3 numbers'; expected one for each"),
    ],
)
def test_features_that_do_not_fit_are_refused(query, words):
    with pytest.raises((ValueError, TypeError), match=words):
        LabelMLP(FEATURES, 9, hidden=(4,)).score_all(query)


def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match="activation is 'sine'; expected one of 'relu', 'gelu', 'silu', 'tanh'"):
        MLPScorer(FEATURES, activation="sine")
