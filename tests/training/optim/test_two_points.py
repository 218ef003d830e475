"""Scores at two points with the same randomness, and their derivative along a step."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from songrank.core.errors import UserError
from songrank.models._layers import Dropout
from songrank.training.optim.two_points import directional, forward_both
from tests.models import small

ITEM = torch.tensor([[3, 1, 9, 20], [0, 1, 2, 3], [5, 5, 7, 8], [22, 21, 20, 0]])
TWO_POINTS = {"labels, csr", "labels, bags", "labels, linear and bags"}  # embedding_bag has no forward mode


def a_model(name):
    """In training mode and float64, with what to ask of it."""
    if name in small.LISTS:
        features, mask = small.lists(dtype=torch.float64)
        return small.listed(name, dtype=torch.float64).train(), lambda model: model(features, mask)
    model, query = small.catalogue(name, dtype=torch.float64)
    return model.train(), lambda model: model(query, ITEM)


def step_of(model, size=1e-6):
    generator = torch.Generator().manual_seed(2)
    return {
        name: size * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        for name, weight in model.named_parameters()
    }


def normalised(dropout=0.5, kind=nn.Dropout):
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), kind(dropout), nn.Linear(8, 1)).double()


ROWS = torch.randn(16, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("name", [*small.CATALOGUE, *small.LISTS])
def test_at_the_same_weights_both_points_are_equal_and_gradients_reach_both(name):
    model, call = a_model(name)
    previous = {name: weight.detach().clone().requires_grad_() for name, weight in model.named_parameters()}
    now, before = forward_both(model, previous, call)
    assert torch.equal(now, before)
    (now.sum() + 2.0 * before.sum()).backward()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(previous[name].grad, 2.0 * weight.grad)


@pytest.mark.parametrize("name", [*small.CATALOGUE, *small.LISTS])
def test_the_derivative_is_the_difference_of_two_points_to_first_order(name):
    model, call = a_model(name)
    step = step_of(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.manual_seed(7)
        scores, change = directional(model, step, call)
    assert any("two forward passes" in str(each.message) for each in caught) == (name in TWO_POINTS)
    torch.manual_seed(7)
    previous = {name: (weight - step[name]).detach() for name, weight in model.named_parameters()}
    now, before = forward_both(model, previous, call)
    assert torch.equal(scores, now)
    assert not change.requires_grad
    assert float((now - before - change).detach().norm()) < 1e-3 * float(change.norm())
    scores.sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


@pytest.mark.parametrize("kind", [nn.Dropout, Dropout, nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_dropout_drops_the_same_cells_at_both_points(kind):
    layer = kind(0.5)
    cells = torch.randn(40, 50, generator=torch.Generator().manual_seed(1)) + 30.0
    model = nn.ParameterDict({"cells": cells})
    now, before = forward_both(model, {"cells": cells + 1.0}, lambda model: layer(model["cells"]))
    dropped = now == now.min()
    assert 0.3 < float(dropped.double().mean()) < 0.7
    assert torch.equal(dropped, before == before.min())
    assert not torch.equal(now, before)


def test_the_random_numbers_drawn_are_those_of_one_pass():
    model = normalised()
    torch.manual_seed(9)
    alone = model(ROWS)
    after = torch.rand(1)
    torch.manual_seed(9)
    now, _ = forward_both(model, {}, lambda model: model(ROWS))
    assert torch.equal(now, alone)
    assert torch.equal(torch.rand(1), after)


@pytest.mark.parametrize("way", ["both", "derivative"])
def test_running_statistics_move_once_as_in_a_plain_pass(way):
    plain, model = normalised(), normalised()
    torch.manual_seed(1)
    plain(ROWS)
    torch.manual_seed(1)
    step = step_of(model, 1e-2)
    if way == "both":
        forward_both(model, step, lambda model: model(ROWS))
    else:
        directional(model, step, lambda model: model(ROWS))
    for name, buffer in plain.named_buffers():
        torch.testing.assert_close(dict(model.named_buffers())[name], buffer, rtol=1e-12, atol=0)


def test_parameters_that_are_not_named_stay():
    model = nn.Linear(3, 1).double()
    now, before = forward_both(model, {"bias": model.bias.detach() - 1.0}, lambda model: model(ROWS))
    torch.testing.assert_close(now - before, torch.ones_like(now))
    _, change = directional(model, {"bias": torch.full((1,), 0.25, dtype=torch.float64)}, lambda model: model(ROWS))
    assert torch.equal(change, torch.full_like(change, 0.25))


class Restless(nn.Module):
    """Draws in another way each time it is called."""

    def __init__(self, *draws):
        super().__init__()
        self.draws, self.calls = draws, 0
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self):
        draw = self.draws[self.calls % len(self.draws)]
        self.calls += 1
        return self.weight * draw()


@pytest.mark.parametrize(
    ("draws", "words"),
    [
        ((lambda: torch.rand(3), lambda: torch.ones(3)), "1 draws in the first pass, 0 in the second"),
        ((lambda: torch.ones(3), lambda: torch.rand(3)), "0 draws in the first pass, more in the second"),
        ((lambda: torch.rand(3), lambda: torch.randn(3)), r"aten.rand.*of \[3\] in the first pass, aten.randn"),
        (
            (lambda: torch.empty(3).uniform_(), lambda: torch.empty(2).uniform_()),
            r"\[3\] in the first pass, .*\[2\] in the second",
        ),
        ((lambda: torch.bernoulli(torch.full((3,), 0.5)),) * 2, "aten.bernoulli.default cannot be repeated"),
    ],
)
def test_other_draws_at_the_second_point_are_an_error_of_one_line(draws, words):
    with pytest.raises(UserError, match=words) as caught:
        forward_both(Restless(*draws), {}, lambda model: model())
    assert "\n" not in str(caught.value)


class Bag(nn.Module):
    """A product with a table by ``embedding_bag``, which has no forward mode."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(3, 4))

    def forward(self, x):
        columns = torch.arange(3).expand(x.shape)
        return F.embedding_bag(columns, self.table, mode="sum", per_sample_weights=x)


def test_a_model_without_forward_mode_warns_once_and_draws_no_more_than_two_points_do():
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(3), Dropout(0.5), Bag(), nn.Linear(4, 1)).double()
    call = lambda model: model(ROWS)  # noqa: E731
    step = step_of(model)
    torch.manual_seed(3)
    with pytest.warns(UserWarning, match="Sequential has no forward-mode derivative, using two forward passes"):
        first, _ = directional(model, step, call)
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again, change = directional(model, step, call)
    assert torch.equal(first, again)
    assert float(change.abs().max()) > 0
    assert int(model[0].num_batches_tracked) == 2


def test_a_models_own_mistake_is_raised_as_it_is():
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        directional(nn.Linear(3, 1), {}, lambda model: model(torch.ones(2, 5)))


def test_a_name_that_is_no_parameter_is_refused():
    with pytest.raises(ValueError, match="previous is 'wait'"):
        forward_both(nn.Linear(3, 1), {"wait": torch.ones(1)}, lambda model: model(torch.ones(1, 3)))


def test_attention_with_dropout_is_repeated_too():
    query = nn.Parameter(torch.randn(1, 2, 6, 4, generator=torch.Generator().manual_seed(0)))
    model = nn.ParameterDict({"query": query})
    call = lambda model: F.scaled_dot_product_attention(*[model["query"]] * 3, dropout_p=0.5)  # noqa: E731
    now, before = forward_both(model, {"query": query.detach().clone()}, call)
    assert torch.equal(now, before)
