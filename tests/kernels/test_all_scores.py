"""NeuMF's scores of all items by a kernel are those of its plain tiles."""

import pytest
import torch

pytest.importorskip("triton", reason="kernels need Triton")

from songrank import kernels
from songrank.kernels import all_scores
from songrank.models import NeuMF

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIZES = [(1, 1, 1, 1), (3, 70, 5, 9), (130, 9, 3, 4), (129, 65, 1, 2)]  # blocks have 128 rows and 64 columns


def neumf(items, dim, hidden):
    torch.manual_seed(0)
    model = NeuMF(150, items, dim=dim, hidden=(hidden,), dropout=0.5).eval().to(DEVICE)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)  # far from 0, so that every term counts
    return model


@pytest.mark.parametrize(("rows", "items", "dim", "hidden"), SIZES)
def test_all_items_score_as_the_plain_way_scores_them(rows, items, dim, hidden, monkeypatch):
    model = neumf(items, dim, hidden)
    query = torch.arange(rows, device=DEVICE).flip(0)
    with torch.no_grad():
        with kernels.plain():
            wanted = model.double().score_all(query)
        monkeypatch.setattr(kernels, "usable", lambda tensor: True)
        called = []
        launch = all_scores.all_scores
        monkeypatch.setattr(all_scores, "all_scores", lambda *parts: called.append(1) or launch(*parts))
        found = model.float().score_all(query)
    assert called
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


def test_a_number_that_is_none_is_not_hidden():
    generator = torch.Generator().manual_seed(2)
    shapes = ((3, 4), (3, 5), (6, 4), (6, 5), (5,))
    factors, by_query, table, by_item, head = (torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes)
    by_query[1, 2] = torch.nan
    by_item[4, 0] = torch.nan
    lost = all_scores.all_scores(factors, by_query, table, by_item, head).isnan()
    assert lost.nonzero().tolist() == [[0, 4], *([1, item] for item in range(6)), [2, 4]]


@pytest.mark.parametrize("why", ["gradient", "training"])
def test_where_it_could_not_give_what_is_asked_for_the_plain_way_is_gone(why, monkeypatch):
    model = neumf(7, 3, 4)
    monkeypatch.setattr(kernels, "usable", lambda tensor: True)
    monkeypatch.setattr(all_scores, "all_scores", lambda *parts: pytest.fail("no gradient, and no dropout"))
    query = torch.arange(5, device=DEVICE)
    if why == "gradient":
        assert model.score_all(query).requires_grad
    else:
        with torch.no_grad():
            model.train().score_all(query)
