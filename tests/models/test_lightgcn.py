"""LightGCN: scores of propagated vectors, when they are computed, and the model on disk."""

import copy

import numpy as np
import pytest
import torch

from songrank.models import Ensemble, LightGCN, MatrixFactorisation, lightgcn
from songrank.training.optim.ema import WeightEMA
from tests.models.small import EDGES, ITEMS, QUERIES
from tests.models.test_graph import by_loops

EVERYONE = torch.arange(QUERIES)


def make(**options):
    torch.manual_seed(0)
    return LightGCN(QUERIES, ITEMS, EDGES, **{"dim": 4, **options})


def by_hand(model):
    """Scores by dense float64 loops."""
    tables = [table.weight.detach().double().numpy() for table in (model.query_embedding, model.item_embedding)]
    found = by_loops(np.concatenate(tables), model.layers, EDGES.T.tolist(), QUERIES)
    queries, items = found[:QUERIES], found[QUERIES:]
    if model.cosine:
        queries, items = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries, items))
    return queries @ items.T / model.temperature


@pytest.fixture
def count(monkeypatch):
    """The number of propagations so far."""
    calls = []

    def counted(*arguments):
        calls.append(1)
        return propagate(*arguments)

    propagate = lightgcn.propagate
    monkeypatch.setattr(lightgcn, "propagate", counted)
    return lambda: len(calls)


@pytest.mark.parametrize("options", [{}, {"layers": 3}, {"scoring": "cosine", "temperature": 0.2}])
def test_scores_are_those_of_dense_loops(options):
    model = make(**options).double()
    np.testing.assert_allclose(model.score_all(EVERYONE).detach().numpy(), by_hand(model), rtol=0, atol=1e-12)
    product = model.scaled(model.query_vectors(EVERYONE)) @ model.item_vectors().T
    torch.testing.assert_close(product, model.score_all(EVERYONE))
    item = torch.tensor([[3, 22, 5]])
    scores = model.score(model.query_vectors(EVERYONE), item)
    torch.testing.assert_close(scores, model.score_all(EVERYONE)[:, item[0]])


@pytest.mark.parametrize("scoring", ["dot", "cosine"])
def test_gradients_are_finite_differences_of_the_loops(scoring):
    model, weight = make(scoring=scoring).double(), np.random.default_rng(0).normal(size=(QUERIES, ITEMS))
    (model(EVERYONE, torch.arange(ITEMS).expand(QUERIES, -1)) * torch.from_numpy(weight)).sum().backward()
    for table in (model.query_embedding, model.item_embedding):
        for place in [(0, 0), (3, 2), (5, 1), (6, 3)]:
            ends = []
            for step in (1e-6, -1e-6):
                moved = copy.deepcopy(model)
                getattr(moved, f"{'query' if table is model.query_embedding else 'item'}_embedding").weight.data[
                    place
                ] += step
                ends.append((by_hand(moved) * weight).sum())
            assert table.weight.grad[place].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-6)


def test_a_training_step_propagates_once(count):
    model = make().train()
    model(EVERYONE, torch.arange(9).expand(QUERIES, -1)).sum().backward()
    assert count() == 1


def test_evaluation_propagates_once_until_the_weights_change(count):
    model = make().eval()
    optimiser = torch.optim.Adam(model.parameters(), fused=True)

    def scores():
        """Three batches, correct at these weights."""
        before = count()
        with torch.no_grad():
            found = torch.cat([model.score_all(some) for some in EVERYONE.split(3)])
            model(EVERYONE, torch.zeros(1, 1, dtype=torch.int64))
        np.testing.assert_allclose(found.double().numpy(), by_hand(model), rtol=1e-4, atol=1e-5)
        return count() - before

    assert [scores(), scores()] == [1, 0]
    model.score_all(EVERYONE).sum().backward()
    assert scores() == 1
    optimiser.step()
    assert [scores(), scores()] == [1, 0]
    model.load_state_dict({name: value.clone() for name, value in make(dim=4).state_dict().items()})
    assert scores() == 1
    other = {name: value * 2 if value.is_floating_point() else value for name, value in model.state_dict().items()}
    model.load_state_dict(other, assign=True)
    assert [scores(), scores()] == [1, 0]
    mean = WeightEMA(model)
    mean.begin({name: weight * 3 for name, weight in model.named_parameters()})
    with mean.in_place():
        assert [scores(), scores()] == [1, 0]
    assert [scores(), scores()] == [1, 0]
    model.double()
    assert [scores(), scores()] == [1, 0]
    model.float()
    assert [scores(), scores()] == [1, 0]
    model.query_embedding.weight.data.mul_(2.0)  # not noticed before a change of the mode
    model.eval()
    assert [scores(), scores()] == [1, 0]
    assert scores() == 0
    model.train()
    assert scores() > 1


def test_kept_vectors_have_no_part_in_gradients():
    model = make().eval()
    with torch.no_grad():
        model.score_all(EVERYONE)
    model.score_all(EVERYONE).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_weights_without_versions_are_not_kept(count):
    with torch.inference_mode():
        model = make().eval()
        for _ in range(2):
            model.score_all(EVERYONE)
    assert count() == 2


def test_a_state_dict_loads_into_a_model_of_the_same_sizes():
    model = make().eval()
    other = LightGCN(QUERIES, ITEMS, EDGES.shape[1], dim=4).eval()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.score_all(EVERYONE), model.score_all(EVERYONE))
    other.check_buffers()
    with pytest.raises(ValueError, match="the graph is inconsistent"):
        LightGCN(QUERIES, ITEMS, 3, dim=4).check_buffers()


@pytest.mark.parametrize("options", [{}, {"scoring": "cosine", "temperature": 0.3, "learn_temperature": True}])
def test_for_export_it_is_matrix_factorisation(options):
    model = make(**options).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    same = model.for_export()
    assert type(same) is MatrixFactorisation
    torch.testing.assert_close(same.score_all(EVERYONE), model.score_all(EVERYONE))
    both = Ensemble([model, make(layers=3)])
    torch.testing.assert_close(both.for_export().score_all(EVERYONE), both.score_all(EVERYONE))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"edges": -1}, ValueError, "edges is -1; expected a whole number of at least 0"),
        ({"edges": "all"}, TypeError, "edges is 'all'"),
        ({"layers": 0}, ValueError, "layers is 0"),
        ({"temperature": 0.5}, ValueError, "temperature is 0.5; expected 1.0 with scoring='dot'"),
    ],
)
def test_arguments_that_make_no_sense_are_rejected(arguments, error, message):
    with pytest.raises(error, match=message):
        LightGCN(**{"num_queries": QUERIES, "num_items": ITEMS, "edges": EDGES, **arguments})
