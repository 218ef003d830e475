"""The base of all models."""

import math

import pytest
import torch

from songrank.models import HistoryModel, MatrixFactorisation, SequenceModel, _inputs
from songrank.models.base import capabilities_of
from songrank.models.registry import MODELS


def test_a_module_of_another_origin_reads_ids():
    assert capabilities_of(torch.nn.Linear(2, 1)).query == "ids"
    assert capabilities_of(None).query == "ids"


def test_the_history_length_is_that_of_the_model():
    assert SequenceModel(9, dim=4, blocks=1, heads=1, length=6).history_length == 6
    assert MatrixFactorisation(4, 9, dim=2).history_length is None


@pytest.mark.parametrize(("pairs", "kinds"), [(2, {"query", "item"}), (1000, {"query"})])
def test_tables_of_items_are_read_in_part_where_there_are_more_items_than_pairs(pairs, kinds):
    tables = MatrixFactorisation(4, 9, dim=2).row_tables(pairs)
    assert {kind for kind, embeddings in tables.items() if embeddings} == kinds


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_declares_what_describes_a_query(name):
    declared = MODELS[name].capabilities
    assert declared.inputs in {"ids", "histories", "documents", "features", "words"}
    assert bool(declared.query_tables) <= (declared.query == "ids")
    assert declared.pointwise <= (declared.query == "documents")


# ---- scores as products or cosines

COSINE = {"scoring": "cosine", "temperature": 0.25}
HISTORIES = torch.tensor([[3, 5, 7], [2, -1, -1], [-1, -1, -1]])
RANKING = {
    "factors": (lambda **more: MatrixFactorisation(4, 30, dim=5, **more), torch.tensor([2, 0, 3])),
    "sequence": (lambda **more: SequenceModel(30, dim=6, length=4, **more), HISTORIES),
    "history": (lambda **more: HistoryModel(30, dim=5, length=4, **more), HISTORIES),
}
every_ranking_model = pytest.mark.parametrize("name", RANKING)


def ranking(name, **options):
    torch.manual_seed(0)
    model = RANKING[name][0](**options).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim():
                parameter.normal_()
    return model, RANKING[name][1]


def cosine(one, other):
    lengths = math.sqrt(sum(a * a for a in one)) * math.sqrt(sum(b * b for b in other))
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths


@every_ranking_model
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize(("whole_table", "columns"), [(0, 8), (0, 12), (10**6, 8)])  # 12: more pairs than items
def test_cosines_are_those_of_plain_loops_however_items_are_requested(name, learned, whole_table, columns, monkeypatch):
    monkeypatch.setattr(_inputs, "WHOLE_TABLE", whole_table)
    model, query = ranking(name, **COSINE, learn_temperature=learned)
    vectors, items = model.query_vectors(query).tolist(), model.item_layer.weight.tolist()
    wanted = torch.tensor([[cosine(v, w) / 0.25 for w in items] for v in vectors], dtype=torch.float64)
    item = torch.randint(30, (3, columns))
    close = {"rtol": 0, "atol": 1e-6 if learned else 1e-12}  # a learned temperature began in float32
    torch.testing.assert_close(model.score_all(query), wanted, **close)
    torch.testing.assert_close(model(query, item), wanted.gather(1, item), **close)
    torch.testing.assert_close(model(query, item[:1]), wanted[:, item[0]], **close)
    model.item_layer.sparse = True
    torch.testing.assert_close(model(query, item), wanted.gather(1, item), **close)
    torch.testing.assert_close(model(query, item[:1]), wanted[:, item[0]], **close)


@every_ranking_model
@pytest.mark.parametrize("options", [{}, COSINE])
def test_scores_are_products_of_scaled_vectors_and_item_vectors(name, options):
    model, query = ranking(name, **options)
    bias = 0.0 if model.item_bias is None else model.item_bias
    product = model.scaled(model.query_vectors(query)) @ model.item_vectors().T + bias
    torch.testing.assert_close(product, model.score_all(query))


@every_ranking_model
def test_gradients_of_cosines_are_the_same_for_all_requests(name, monkeypatch):
    query, item, found = RANKING[name][1], torch.randint(30, (1, 8)), []
    weight = torch.arange(24.0, dtype=torch.float64).view(3, 8)
    for whole_table, sparse, rows, copies in (
        (0, False, 3, 1),
        (0, False, 3, 2),  # more pairs than items
        (10**6, False, 3, 1),
        (0, True, 3, 1),
        (0, False, 1, 1),
        (0, True, 1, 1),
    ):
        monkeypatch.setattr(_inputs, "WHOLE_TABLE", whole_table)
        model, _ = ranking(name, **COSINE, learn_temperature=True)
        model.item_layer.sparse = sparse
        scores = model(query, item.expand(rows, -1).repeat(1, copies))
        (scores[:, :8] * weight).sum().backward()
        found.append({key: parameter.grad.to_dense() for key, parameter in model.named_parameters()})
    for other in found[1:]:
        assert other.keys() == found[0].keys()
        for key, gradient in found[0].items():
            torch.testing.assert_close(other[key], gradient, msg=lambda text, key=key: f"{key}: {text}")


@every_ranking_model
def test_the_temperature_has_the_gradient_of_finite_differences(name):
    model, query = ranking(name, **COSINE, learn_temperature=True)
    (gradient,) = torch.autograd.grad(model.score_all(query).square().sum(), model.log_temperature)
    ends = []
    with torch.no_grad():
        for step in (1e-6, -2e-6):
            model.log_temperature.add_(step)
            ends.append(model.score_all(query).square().sum().item())
    assert gradient.item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)
    model.reset_head()
    assert model.log_temperature.item() == pytest.approx(math.log(0.25))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("whole_table", "copies"), [(0, 1), (0, 6), (10**6, 1)])
def test_vectors_of_zeros_have_cosine_0_and_gradient_0(sparse, whole_table, copies, monkeypatch):
    monkeypatch.setattr(_inputs, "WHOLE_TABLE", whole_table)
    model, query = ranking("factors", **COSINE)
    with torch.no_grad():
        model.query_factors.weight[2] = 0.0
        model.item_factors.weight[7] = 0.0
    model.item_factors.sparse = sparse
    item = torch.tensor([[7, 1], [7, 2], [7, 3]]).repeat(1, copies)
    scores = model(query, item)
    assert not scores[0].any()
    assert not scores[:, 0].any()
    assert scores[1:, 1].all()
    scores.sum().backward()
    gradient = model.item_factors.weight.grad.to_dense()
    assert gradient.isfinite().all()
    assert not gradient[7].any()
    assert model.query_factors.weight.grad.isfinite().all()
    assert not model.query_factors.weight.grad[2].any()
    assert model.score_all(query).isfinite().all()


def test_a_model_of_products_has_no_parameters_of_cosines():
    keys = {name: set(ranking(name)[0].state_dict()) for name in ("factors", "history")}
    assert keys["factors"] == {"query_factors.weight", "item_factors.weight", "bias"}
    assert keys["history"] == {"item_read.weight", "shift", "item.weight", "bias"}
    assert "log_temperature" not in ranking("sequence")[0].state_dict()
    assert set(ranking("factors", **COSINE)[0].state_dict()) == {"query_factors.weight", "item_factors.weight"}


@every_ranking_model
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scoring": "l2"}, "scoring is 'l2'; expected one of 'dot', 'cosine'"),
        ({"scoring": "cosine", "temperature": 0.0}, r"temperature is 0.0; expected a number in \(0, inf\)"),
        ({"temperature": 0.1}, "temperature is 0.1; expected 1.0 with scoring='dot'"),
        ({"learn_temperature": True}, "learn_temperature is True; expected False with scoring='dot'"),
    ],
)
def test_options_of_scores_that_make_no_sense_are_rejected(name, options, message):
    with pytest.raises(ValueError, match=message):
        RANKING[name][0](**options)


def test_an_item_bias_needs_the_dot_product():
    assert MatrixFactorisation(4, 9, bias=True).item_bias is not None
    assert MatrixFactorisation(4, 9, bias=False, scoring="cosine").item_bias is None
    with pytest.raises(ValueError, match="bias is True; expected none or False with scoring='cosine'"):
        MatrixFactorisation(4, 9, bias=True, scoring="cosine")
