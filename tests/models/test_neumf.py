"""NeuMF against plain loops, the paper's sizes, and the ways in which it saves work."""

import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from songrank.models import NeuMF, neumf


def by_loops(model, query, item):
    """He et al.'s network for one pair, number by number, with both vectors concatenated."""
    state = {key: value.tolist() for key, value in model.state_dict().items()}
    product = [
        a * b for a, b in zip(state["query_product.weight"][query], state["item_product.weight"][item], strict=True)
    ]
    values = state["query_hidden.weight"][query] + state["item_hidden.weight"][item]
    layers = ["first"] + [f"rest.1.{place}.0" for place in range(len(model.widths) - 1)]
    for layer in layers:
        values = [
            max(0.0, bias + sum(w * value for w, value in zip(row, values, strict=True)))
            for row, bias in zip(state[f"{layer}.weight"], state[f"{layer}.bias"], strict=True)
        ]
    return sum(w * value for w, value in zip(state["head.weight"][0], product + values, strict=True))


@pytest.mark.parametrize("hidden", [(4,), (6, 3), (5, 4, 3)])
def test_scores_are_those_of_plain_loops(hidden):
    torch.manual_seed(0)
    model = NeuMF(5, 7, dim=3, hidden=hidden).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)  # far from 0, so that every term counts
    scores = model.score_all(torch.arange(5))
    expected = torch.tensor([[by_loops(model, q, i) for i in range(7)] for q in range(5)], dtype=torch.float64)
    assert torch.allclose(scores, expected, atol=1e-12, rtol=1e-12)
    item = torch.tensor([[6, 0], [1, 1], [2, 5], [3, 4], [0, 6]])
    assert torch.allclose(model(torch.arange(5), item), expected.gather(1, item), atol=1e-12, rtol=1e-12)


def test_the_sizes_and_the_start_are_the_papers():
    torch.manual_seed(0)
    model = NeuMF(num_queries=900, num_items=700)
    sizes = {key: tuple(parameter.shape) for key, parameter in model.named_parameters()}
    assert sizes == {
        "query_product.weight": (900, 64),
        "item_product.weight": (700, 64),
        "query_hidden.weight": (900, 64),
        "item_hidden.weight": (700, 64),
        "first.weight": (64, 128),
        "first.bias": (64,),
        "head.weight": (1, 128),
    }
    assert sum(parameter.numel() for parameter in model.parameters()) == 2 * 64 * (900 + 700) + 64 * 128 + 64 + 128
    assert [module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)] == [0.2]
    for key, parameter in model.named_parameters():
        count = parameter.numel()
        assert abs(parameter.mean().item()) < 4 * 0.01 / math.sqrt(count), key
        assert abs(parameter.std().item() / 0.01 - 1) < 4 / math.sqrt(2 * count), key


@pytest.mark.parametrize("tile", [1, 500, 5000, 2**28])
@pytest.mark.parametrize("hidden", [(4,), (4, 3)])
def test_tiles_of_any_size_give_the_same_scores(tile, hidden, monkeypatch):
    torch.manual_seed(0)
    model = NeuMF(20, 30, dim=5, hidden=hidden).double().eval()
    query = torch.arange(20)
    expected = model(query, torch.arange(30).unsqueeze(0))
    monkeypatch.setattr(neumf, "CPU_TILE", tile)
    assert torch.allclose(model.score_all(query), expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("tile", [2000, 30_000])
def test_a_tile_never_holds_more_hidden_cells_than_its_budget(tile, monkeypatch):
    model = NeuMF(40, 70, dim=5, hidden=(4,)).eval()
    monkeypatch.setattr(neumf, "CPU_TILE", tile)
    seen = []
    model.rest.register_forward_hook(lambda module, given, result: seen.append(given[0].numel() * 4))
    model.score_all(torch.arange(40))
    assert len(seen) > 1
    assert max(seen) <= tile
    assert sum(seen) == 40 * 70 * 4 * 4


@pytest.mark.parametrize(("rows", "shape", "computed"), [(40, (40, 9), 70), (2, (2, 9), 18), (40, (1, 50), 50)])
def test_the_items_half_is_computed_for_each_item_or_each_pair_whichever_are_fewer(rows, shape, computed, monkeypatch):
    model, seen = NeuMF(40, 70, dim=5, hidden=(4,)).eval(), []

    def linear(x, weight, bias=None):
        seen.append(x[..., 0].numel())
        return F.linear(x, weight, bias)

    monkeypatch.setattr(neumf, "F", SimpleNamespace(linear=linear))
    model(torch.arange(rows), torch.zeros(shape, dtype=torch.int64))
    assert sorted(seen) == sorted([rows, computed])


def test_no_queries_have_no_scores():
    assert NeuMF(4, 7).score_all(torch.tensor([], dtype=torch.int64)).shape == (0, 7)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"num_queries": 0}, "num_queries is 0; expected a whole number of at least 1"),
        ({"num_items": 2.5}, "num_items is 2.5"),
        ({"dim": -1}, "dim is -1"),
        ({"hidden": ()}, r"hidden is \(\); expected a sequence of at least 1 whole numbers"),
        ({"hidden": 64}, "hidden is 64"),
        ({"hidden": (64, 0)}, r"hidden\[1\] is 0"),
        ({"dropout": 1.0}, r"dropout is 1.0; expected a number in \[0, 1\)"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(sizes, words):
    with pytest.raises((ValueError, TypeError), match=words):
        NeuMF(**{"num_queries": 4, "num_items": 7, **sizes})
