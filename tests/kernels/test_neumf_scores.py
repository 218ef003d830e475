"""NeuMF's scores by kernels: all items as in plain tiles; pairs with the gradients of autograd, and dropout."""

import math

import pytest
import torch

pytest.importorskip("triton", reason="kernels need Triton")

from songrank import kernels
from songrank.kernels import neumf_scores
from songrank.kernels.neumf_scores import pair_scores
from songrank.models import NeuMF

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NAMES = ("factors", "by_query", "table", "by_item", "head")
ROUNDING = {"rtol": 1e-5, "atol": 1e-5}


def parts(rows, width, hidden, items, seed=0):
    """Leaves on the device: factors, by_query, table, by_item, head."""
    generator = torch.Generator().manual_seed(seed)
    shapes = ((rows, width), (rows, hidden), (items, width), (items, hidden), (hidden,))
    return [torch.randn(shape, generator=generator).to(DEVICE).requires_grad_() for shape in shapes]


def draw_items(rows, columns, items, seed=0):
    return torch.randint(items, (rows, columns), generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def by_autograd(given, item, gradient):
    """Scores and the gradients of all parts, cell by cell in float64."""
    factors, by_query, table, by_item, head = leaves = [part.detach().double().requires_grad_() for part in given]
    hidden = torch.relu(by_query.unsqueeze(1) + by_item[item])
    scores = (factors.unsqueeze(1) * table[item]).sum(-1) + (hidden * head).sum(-1)
    return scores.detach(), torch.autograd.grad(scores, leaves, gradient.double())


def assert_same(given, item, gradient):
    scores = pair_scores(*given, item)
    found = torch.autograd.grad(scores, given, gradient)
    wanted, gradients = by_autograd(given, item, gradient)
    torch.testing.assert_close(scores.double(), wanted, **ROUNDING)
    for name, one, other in zip(NAMES, found, gradients, strict=True):
        torch.testing.assert_close(one.double(), other, **ROUNDING, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize(
    ("rows", "columns", "width", "hidden", "items"),
    [(1, 1, 1, 1, 1), (3, 5, 3, 5, 7), (2, 37, 24, 20, 50), (4, 32, 8, 16, 9), (2, 65, 5, 33, 3)],
)
def test_scores_and_gradients_are_those_of_autograd(rows, columns, width, hidden, items):
    gradient = torch.randn(rows, columns, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    assert_same(parts(rows, width, hidden, items), draw_items(rows, columns, items), gradient)


def test_an_item_that_repeats_gets_the_sum_of_its_gradients():
    item = torch.full((3, 40), 2, device=DEVICE)
    item[1, ::2] = 0
    assert_same(parts(3, 6, 7, 4), item, torch.ones(3, 40, device=DEVICE))


def test_pairs_without_a_gradient_give_none():
    given, item = parts(3, 6, 7, 11), draw_items(3, 35, 11)
    gradient = torch.randn(3, 35, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    gradient[1] = 0.0
    gradient[:, ::3] = 0.0
    assert_same(given, item, gradient)
    for part in torch.autograd.grad(pair_scores(*given, item), given, torch.zeros(3, 35, device=DEVICE)):
        assert not part.any()


def test_views_that_do_not_lie_row_after_row_are_read_as_they_are_meant():
    given = parts(3, 6, 7, 11)
    factors, by_query, table, by_item, head = given
    item = draw_items(1, 9, 11)
    turned = [part.T.contiguous().T for part in (factors, by_query, table, by_item)]
    wide = torch.stack([head, -head], 1)[:, 0]
    scores = pair_scores(*turned, wide, item.expand(3, 9))
    found = torch.autograd.grad(scores.sum(), given)  # the gradient of a sum is one number, expanded
    wanted, gradients = by_autograd(given, item.expand(3, 9), torch.ones(3, 9, device=DEVICE))
    torch.testing.assert_close(scores.double(), wanted, **ROUNDING)
    for one, other in zip(found, gradients, strict=True):
        torch.testing.assert_close(one.double(), other, **ROUNDING)


def test_a_number_that_is_none_is_not_hidden():
    given, item = parts(3, 6, 7, 11), torch.tensor([[0, 1], [2, 3], [4, 0]], device=DEVICE)
    with torch.no_grad():
        given[3][3, 5] = torch.nan  # a hidden cell of item 3
        given[2][4, 0] = torch.nan  # a factor of item 4
    assert pair_scores(*given, item).isnan().tolist() == [[False, False], [False, True], [True, False]]


def cells(dropout, rows=3, columns=80, hidden=11):
    """[B, L, H]: by what each cell was multiplied, as the backward pass tells, with the scores and head's gradient.

    Every pair has an item of its own, whose cells are all 1: its gradient is head · factor.
    """
    head = torch.linspace(0.5, 1.5, hidden, device=DEVICE).requires_grad_()
    by_item = torch.ones(rows * columns, hidden, device=DEVICE).requires_grad_()
    by_query, nothing = torch.zeros(rows, hidden, device=DEVICE), torch.zeros(rows, 1, device=DEVICE)
    item = torch.arange(rows * columns, device=DEVICE).view(rows, columns)
    scores = pair_scores(nothing, by_query, torch.zeros(rows * columns, 1, device=DEVICE), by_item, head, item, dropout)
    of_item, of_head = torch.autograd.grad(scores.sum(), (by_item, head))
    factor = (of_item / head.detach()).view(rows, columns, hidden)
    return factor, scores.detach(), of_head, head.detach()


def assert_share(kept, share):
    """Within five standard deviations of a binomial: wrong once in a million."""
    bound = 5 * math.sqrt(kept.numel() * share * (1 - share))
    assert abs(int(kept.sum()) - kept.numel() * share) <= bound


@pytest.mark.parametrize("dropout", [0.1, 0.2, 0.5, 0.9])
def test_dropout_keeps_its_share_of_cells_and_their_mean(dropout):
    torch.manual_seed(0)
    factor, *_ = cells(dropout)
    kept = factor > 0
    torch.testing.assert_close(factor, kept / (1 - dropout), rtol=1e-5, atol=0.0)
    assert_share(kept, 1 - dropout)
    for row in kept:
        assert_share(row, 1 - dropout)
    for column in kept.unbind(-1):
        assert_share(column, 1 - dropout)
    for one, other in ((kept[:, ::2], kept[:, 1::2]), (kept[..., :10:2], kept[..., 1:10:2])):  # neighbours
        assert_share(one == other, dropout**2 + (1 - dropout) ** 2)


@pytest.mark.parametrize("dropout", [0.2, 0.5])
def test_the_backward_pass_drops_the_cells_that_the_forward_pass_dropped(dropout):
    torch.manual_seed(1)
    factor, scores, of_head, head = cells(dropout)
    torch.testing.assert_close(scores, (factor * head).sum(-1), **ROUNDING)
    torch.testing.assert_close(of_head, factor.sum((0, 1)), **ROUNDING)
    # The hidden part is linear in its slopes: by Euler's theorem it is the inputs times their gradients.
    given, item = parts(3, 1, 6, 8), draw_items(3, 50, 8)
    given = [torch.zeros_like(given[0]), given[1], torch.zeros_like(given[2]), *given[3:]]
    scores = pair_scores(*given, item, dropout)
    of_query, of_item, of_head = torch.autograd.grad(scores.sum(), (given[1], given[3], given[4]))
    total = pytest.approx(scores.sum().item(), rel=1e-4)
    assert ((given[1] * of_query).sum() + (given[3] * of_item).sum()).item() == total
    assert (given[4] * of_head).sum().item() == total


def test_each_call_drops_other_cells_and_a_seed_brings_them_back():
    torch.manual_seed(2)
    first, second = (cells(0.3)[0] > 0 for _ in range(2))
    assert_share(first == second, 0.3**2 + 0.7**2)
    torch.manual_seed(2)
    assert torch.equal(cells(0.3)[0] > 0, first)


def test_without_dropout_no_random_number_is_drawn():
    torch.manual_seed(3)
    expected = torch.rand(1, device=DEVICE)
    torch.manual_seed(3)
    cells(0.0)
    assert torch.equal(torch.rand(1, device=DEVICE), expected)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("columns", "items"), [(7, 90), (31, 12)])
def test_neumf_gives_the_same_scores_and_gradients_with_it(columns, items, sparse, monkeypatch):
    torch.manual_seed(0)
    model = NeuMF(6, items, dim=5, hidden=(9,), dropout=0.0).to(DEVICE)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    query, item = torch.tensor([4, 0, 4], device=DEVICE), draw_items(3, columns, items)
    weight = torch.randn(3, columns, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    with kernels.plain():
        wanted = model(query, item)
        gradients = torch.autograd.grad(wanted, list(model.parameters()), weight)
    monkeypatch.setattr(kernels, "usable", lambda tensor: True)
    for embeddings in model.row_tables(3 * columns).values():
        for embedding in embeddings:
            embedding.sparse = sparse
    called = []
    monkeypatch.setattr(neumf_scores, "pair_scores", lambda *given: called.append(1) or pair_scores(*given))
    found = model(query, item)
    assert called
    torch.testing.assert_close(found, wanted, **ROUNDING)
    (found * weight).sum().backward()
    for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
        torch.testing.assert_close(
            parameter.grad.to_dense(), gradient, **ROUNDING, msg=lambda text, name=name: f"{name}: {text}"
        )


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
        launch = neumf_scores.all_scores
        monkeypatch.setattr(neumf_scores, "all_scores", lambda *parts: called.append(1) or launch(*parts))
        found = model.float().score_all(query)
    assert called
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)


def test_a_nan_is_not_hidden_in_the_scores_of_all_items():
    generator = torch.Generator().manual_seed(2)
    shapes = ((3, 4), (3, 5), (6, 4), (6, 5), (5,))
    factors, by_query, table, by_item, head = (torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes)
    by_query[1, 2] = torch.nan
    by_item[4, 0] = torch.nan
    lost = neumf_scores.all_scores(factors, by_query, table, by_item, head).isnan()
    assert lost.nonzero().tolist() == [[0, 4], *([1, item] for item in range(6)), [2, 4]]


@pytest.mark.parametrize("why", ["gradient", "training"])
def test_where_it_could_not_give_what_is_asked_for_the_plain_way_is_gone(why, monkeypatch):
    model = neumf(7, 3, 4)
    monkeypatch.setattr(kernels, "usable", lambda tensor: True)
    monkeypatch.setattr(neumf_scores, "all_scores", lambda *parts: pytest.fail("no gradient, and no dropout"))
    query = torch.arange(5, device=DEVICE)
    if why == "gradient":
        assert model.score_all(query).requires_grad
    else:
        with torch.no_grad():
            model.train().score_all(query)
