"""What every list model promises its caller."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank.metrics import evaluate_lists
from songrank.models import ListModel
from tests.models.small import FEATURES, LISTS, listed, lists

every_model = pytest.mark.parametrize("name", LISTS)
sizes = {"seed": st.integers(0, 10**6), "rows": st.integers(1, 4), "columns": st.integers(1, 8)}


@every_model
@settings(max_examples=12, deadline=None)
@given(**sizes)
def test_permuting_the_documents_permutes_the_scores(name, seed, rows, columns):
    model = listed(name, dtype=torch.float64)
    features, mask = lists(seed, rows, columns, torch.float64)
    order = torch.randperm(columns, generator=torch.Generator().manual_seed(seed))
    moved = model(features[:, order], mask[:, order])
    assert torch.allclose(moved, model(features, mask)[:, order], atol=1e-10, rtol=0)


@every_model
@settings(max_examples=12, deadline=None)
@given(**sizes, more=st.integers(1, 5), junk=st.sampled_from([0.0, 1e30, float("nan"), float("inf")]))
def test_padding_changes_nothing_whatever_stands_there(name, seed, rows, columns, more, junk):
    model = listed(name, dtype=torch.float64)
    features, mask = lists(seed, rows, columns, torch.float64)
    scores = model(features, mask)
    filled = torch.where(mask.unsqueeze(-1), features, junk)
    wider = torch.cat([torch.full((rows, more, FEATURES), junk, dtype=torch.float64), filled], 1)
    there = torch.cat([torch.zeros(rows, more, dtype=torch.bool), mask], 1)
    again = model(wider, there)
    assert not again[~there].any()
    assert torch.allclose(again[:, more:], scores, atol=1e-10, rtol=0)
    weight = torch.randn(rows, columns, dtype=torch.float64)
    plain = torch.autograd.grad((scores * weight).sum(), list(model.parameters()))
    padded = torch.autograd.grad((again[:, more:] * weight).sum(), list(model.parameters()))
    for one, other in zip(plain, padded, strict=True):
        assert torch.allclose(one, other, atol=1e-9, rtol=0)


@every_model
def test_a_list_is_scored_as_on_its_own(name):
    model = listed(name, dtype=torch.float64)
    features, mask = lists(3, dtype=torch.float64)
    scores = model(features, mask)
    for row, present in enumerate(mask):
        alone = model(features[row : row + 1, present], torch.ones(1, int(present.sum()), dtype=torch.bool))
        assert torch.allclose(alone[0], scores[row, present], atol=1e-10, rtol=0)


@every_model
@pytest.mark.parametrize("training", [False, True])
def test_a_list_without_documents_scores_zero_and_harms_nobody(name, training):
    model = listed(name, dtype=torch.float64).train(training)
    features, mask = lists(1, dtype=torch.float64)
    mask = mask.clone()
    mask[2] = False
    scores = model(features, mask)
    assert not scores[2].any()
    scores.square().sum().backward()
    for parameter in model.parameters():
        assert parameter.grad.isfinite().all()
    empty = model(features, torch.zeros_like(mask))
    assert not empty.any()
    model.zero_grad()
    empty.sum().backward()
    assert all(not parameter.grad.any() for parameter in model.parameters())


@every_model
def test_gradients_are_those_of_finite_differences(name):
    model = listed(name, dtype=torch.float64)
    features, mask = lists(2, rows=2, columns=4, dtype=torch.float64)
    features.requires_grad_()
    assert torch.autograd.gradcheck(lambda values: model(values, mask), (features,))


@every_model
def test_a_mask_may_be_shared_and_features_may_be_half_precise(name):
    model = listed(name)
    features, mask = lists(4)
    shared = mask[1:2]
    assert torch.equal(model(features, shared), model(features, shared.expand(mask.shape)))
    assert torch.allclose(model(features.half(), mask), model(features.half().float(), mask))


@every_model
def test_resetting_the_head_changes_the_head_alone(name):
    model = listed(name)
    before = copy.deepcopy(model.state_dict())
    model.reset_head()
    changed = [key for key, value in model.state_dict().items() if not torch.equal(value, before[key])]
    assert changed == ["head.weight", "head.bias"]


@every_model
def test_a_seed_gives_the_same_model_and_its_state_round_trips(name, tmp_path):
    one, two, other = (listed(name, seed=seed) for seed in (1, 1, 2))
    features, mask = lists()
    assert torch.equal(one(features, mask), two(features, mask))
    assert not torch.equal(one(features, mask), other(features, mask))
    torch.save(one.state_dict(), tmp_path / "model.pt")
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert torch.equal(one(features, mask), other(features, mask))


@every_model
def test_bfloat16_scores_are_near_the_others_by_autocast_and_by_cast(name):
    model = listed(name)
    features, mask = lists()
    scores = model(features, mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = model(features, mask)
        rough.sum().backward()
    assert torch.allclose(rough.float(), scores, atol=0.1)
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert torch.allclose(model.bfloat16()(features, mask).float(), scores, atol=0.1)


@pytest.mark.parametrize("name", ["mlp", "context-aware"])
def test_it_compiles_whole_for_any_sizes(name):
    torch._dynamo.reset()
    model = listed(name)
    compiled = torch.compile(model, backend="eager", fullgraph=True, dynamic=True)
    for rows, columns in ((4, 9), (3, 5)):
        features, mask = lists(0, rows, columns)
        assert torch.equal(compiled(features, mask), model(features, mask))


@every_model
def test_it_is_a_list_model_whose_scores_can_be_evaluated(name):
    model = listed(name)
    assert isinstance(model, ListModel)
    features, mask = lists()
    result = evaluate_lists(model(features, mask), torch.arange(9.0).expand(4, 9), mask=mask)
    assert 0 < result.values["ndcg@10"] <= 1


@every_model
@pytest.mark.parametrize(
    ("features", "mask", "error", "words"),
    [
        (torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.bool), ValueError, r"features has shape \[2, 3\]"),
        (torch.zeros(2, 3, 9), torch.ones(2, 3, dtype=torch.bool), ValueError, r"features .* with F=6"),
        (torch.zeros(2, 3, 6), torch.ones(2, 4, dtype=torch.bool), ValueError, r"mask .*, here \[2, 3\]"),
        (torch.zeros(2, 3, 6), torch.ones(2, 3), TypeError, "mask is torch.float32; expected dtype torch.bool"),
        (torch.zeros(2, 3, 6), None, TypeError, "mask is 'NoneType'"),
        ([[1.0]], torch.ones(2, 3, dtype=torch.bool), TypeError, "features is 'list'"),
    ],
)
def test_input_of_a_wrong_shape_or_type_is_refused(name, features, mask, error, words):
    with pytest.raises(error, match=words):
        listed(name)(features, mask)
