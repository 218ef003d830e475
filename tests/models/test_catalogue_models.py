"""What every catalogue model promises its caller."""

import copy

import pytest
import torch

from songrank import Relevance
from songrank.metrics import evaluate_catalogue
from songrank.models import CatalogueModel, _inputs
from tests.models.small import CATALOGUE, ITEMS, catalogue, dense, ids

every_model = pytest.mark.parametrize("name", CATALOGUE)
EVERYTHING = torch.arange(ITEMS)


def some_items(rows, columns=6, seed=0):
    return torch.randint(ITEMS, (rows, columns), generator=torch.Generator().manual_seed(seed))


@every_model
def test_all_items_score_the_same_however_they_are_asked_for(name):
    model, query = catalogue(name, dtype=torch.float64)
    scores = model.score_all(query)
    assert scores.shape == (4, ITEMS)
    assert torch.allclose(model(query, EVERYTHING.expand(4, -1)), scores, atol=1e-10, rtol=0)
    assert torch.allclose(model(query, EVERYTHING.unsqueeze(0)), scores, atol=1e-10, rtol=0)
    assert scores.std() > 0


@every_model
@pytest.mark.parametrize("whole_table", [0, 10**6])
@pytest.mark.parametrize("columns", [1, 3, 40])
def test_some_items_score_as_they_do_among_all(name, columns, whole_table, monkeypatch):
    monkeypatch.setattr(_inputs, "WHOLE_TABLE", whole_table)
    model, query = catalogue(name, dtype=torch.float64)
    scores, item = model.score_all(query), some_items(4, columns)
    assert torch.allclose(model(query, item), scores.gather(1, item), atol=1e-10, rtol=0)
    assert torch.allclose(model(query, item[:1]), scores[:, item[0]], atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", [name for name in CATALOGUE if "csr" not in name and "bags" not in name])
def test_one_query_is_scored_as_in_a_batch(name):
    model, query = catalogue(name, dtype=torch.float64)
    assert torch.allclose(model.score_all(query[2:3]), model.score_all(query)[2:3], atol=1e-10, rtol=0)
    item = some_items(1)
    assert torch.allclose(model(query[2:3], item), model.score_all(query[2:3])[:, item[0]], atol=1e-10, rtol=0)


@every_model
def test_resetting_the_head_changes_the_head_alone(name):
    model, query = catalogue(name)
    head = [key for key, _ in model.named_parameters() if key.startswith("head.") or key in ("bias", "log_temperature")]
    with torch.no_grad():
        for key in head:
            model.get_parameter(key).add_(1.0)
    before, scores = copy.deepcopy(model.state_dict()), model.score_all(query)
    model.reset_head()
    assert [key for key, value in model.state_dict().items() if not torch.equal(value, before[key])] == head
    assert torch.equal(model.score_all(query), scores) == (not head)


@every_model
def test_a_seed_gives_the_same_model_and_another_seed_another(name):
    one, two, other = (catalogue(name, seed=seed)[0].state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert any(not torch.equal(one[key], other[key]) for key in one)


@every_model
def test_the_state_round_trips_through_a_file(name, tmp_path):
    model, query = catalogue(name, seed=1)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other, _ = catalogue(name, seed=2)
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    assert torch.equal(other.score_all(query), model.score_all(query))


@every_model
def test_gradients_are_finite_and_reach_every_parameter(name):
    model, query = catalogue(name)
    model.train()
    model(query, some_items(4, 40)).square().sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all(), key
        assert parameter.grad.any(), key


@every_model
@pytest.mark.parametrize("whole_table", [0, 10**6])
def test_gradients_are_those_of_score_all(name, whole_table, monkeypatch):
    monkeypatch.setattr(_inputs, "WHOLE_TABLE", whole_table)
    model, query = catalogue(name, dtype=torch.float64)
    item, weight = some_items(4), torch.randn(4, 6, dtype=torch.float64)
    parameters = list(model.parameters())
    asked = torch.autograd.grad((model(query, item) * weight).sum(), parameters)
    shared = torch.autograd.grad((model(query, item[:1]) * weight).sum(), parameters)
    scores = model.score_all(query)
    for found, columns in ((asked, item), (shared, item[:1].expand(4, -1))):
        wanted = torch.autograd.grad((scores.gather(1, columns) * weight).sum(), parameters, retain_graph=True)
        for one, other in zip(found, wanted, strict=True):
            assert torch.allclose(one, other, atol=1e-10, rtol=0)


@every_model
def test_bfloat16_scores_are_near_the_others_by_autocast_and_by_cast(name):
    model, query = catalogue(name)
    item, scores = some_items(4), model.score_all(query)
    near = {"rtol": 0.05, "atol": 0.05 * scores.abs().max().item()}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.allclose(model.score_all(query).float(), scores, **near)
        asked = model(query, item)
        asked.sum().backward()
    assert torch.allclose(asked.float(), scores.gather(1, item), **near)
    model, query = catalogue(name, dtype=torch.bfloat16)
    assert model(query, item).dtype == torch.bfloat16
    assert torch.allclose(model.score_all(query).float(), scores, **near)


@every_model
def test_the_evaluator_ranks_all_items_by_it(name):
    model, query = catalogue(name)
    targets = Relevance.from_pairs(query=[0, 1, 3], item=[2, 5, 1], num_queries=4, num_items=ITEMS)
    described = dense(4) if name.startswith("labels") else query
    scorer = model if CATALOGUE[name][1] is ids else lambda row: model.score_all(described[row])
    result = evaluate_catalogue(scorer, targets, metrics="mrr")
    scores = model.score_all(query)
    rank = [int((scores[q] >= scores[q, i]).sum()) for q, i in ((0, 2), (1, 5), (3, 1))]
    assert result.values["mrr"] == pytest.approx(sum(1 / r for r in rank) / 3)


@every_model
def test_it_is_a_catalogue_model(name):
    assert isinstance(catalogue(name)[0], CatalogueModel)


@pytest.mark.parametrize(
    ("name", "dynamic"),
    [
        ("neumf", True),
        ("factors", False),
        ("towers of features", False),
        ("labels, bags", True),
        ("xml-cnn", False),
        ("text-transformer", True),
    ],
)
def test_it_compiles_whole_whether_sizes_are_left_open_or_not(name, dynamic):
    torch._dynamo.reset()
    compiled = torch.compile(catalogue(name)[0], backend="eager", fullgraph=True, dynamic=dynamic)
    for rows, columns in ((4, 6), (5, 7))[: 1 + dynamic]:
        model, query = catalogue(name, rows)
        item = some_items(rows, columns)
        assert torch.equal(compiled(query, item), model(query, item))


@every_model
@pytest.mark.parametrize(
    ("item", "error", "words"),
    [
        (torch.zeros(4, dtype=torch.int64), ValueError, "item has shape"),
        (torch.zeros(3, 2, dtype=torch.int64), ValueError, r"item has shape \[3, 2\]; expected \[B, L\] or \[1, L\]"),
        (torch.zeros(4, 2), TypeError, "item is torch.float32; expected dtype torch.int64"),
        ([[1, 2]], TypeError, "item is 'list'"),
    ],
)
def test_items_of_a_wrong_shape_or_type_are_refused(name, item, error, words):
    model, query = catalogue(name)
    with pytest.raises(error, match=words):
        model(query, item)


@pytest.mark.parametrize("name", ["neumf", "factors", "towers of ids"])
@pytest.mark.parametrize(
    ("query", "error"),
    [(torch.zeros(4, 1, dtype=torch.int64), ValueError), (torch.zeros(4), TypeError), ([0, 1], TypeError)],
)
def test_queries_that_are_not_ids_are_refused(name, query, error):
    model, _ = catalogue(name)
    with pytest.raises(error, match="expected .*ids"):
        model.score_all(query)
    with pytest.raises(error, match="expected .*ids"):
        model(query, some_items(4))


def test_training_mode_drops_and_evaluation_mode_does_not():
    model, query = catalogue("neumf")
    assert torch.equal(model.score_all(query), model.score_all(query))
    model.train()
    assert not torch.equal(model.score_all(query), model.score_all(query))
