"""Dropout that draws four cells at a time drops like any other."""

import math

import pytest
import torch

from songrank.models._layers import Dropout, bend, hidden_layers

SHARES = (0.1, 0.2, 0.5, 0.9)


def assert_share(kept, share):
    """Within five standard deviations of a binomial: wrong once in a million."""
    bound = 5 * math.sqrt(kept.numel() * share * (1 - share))
    assert abs(int(kept.sum()) - kept.numel() * share) <= bound


@pytest.mark.parametrize("p", SHARES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_keeps_its_share_of_cells_and_their_mean(p, dtype):
    torch.manual_seed(0)
    result = Dropout(p)(torch.ones(201, 301, dtype=dtype))
    assert result.dtype == dtype
    kept = result > 0
    torch.testing.assert_close(result, kept.to(dtype) / (1 - p), rtol=2e-4, atol=0.0)  # shares are multiples of 2⁻¹⁶
    assert_share(kept, 1 - p)
    assert result.mean().item() == pytest.approx(1.0, abs=5 * math.sqrt(p / (1 - p) / kept.numel()))


@pytest.mark.parametrize("p", SHARES)
def test_cells_of_one_word_do_not_know_of_each_other(p):
    torch.manual_seed(1)
    quarters = (Dropout(p)(torch.ones(40_000, 4)) > 0).unbind(1)
    both = p**2 + (1 - p) ** 2
    for at, one in enumerate(quarters):
        assert_share(one, 1 - p)
        for other in quarters[at + 1 :]:
            assert_share(one == other, both)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (2, 3, 11), (0, 4)])
def test_any_number_of_cells_keeps_its_shape(shape):
    torch.manual_seed(2)
    layer, seen = Dropout(0.5), set()
    for _ in range(60):
        result = layer(torch.full(shape, 3.0))
        assert result.shape == shape
        seen |= set(result.flatten().tolist())
    assert seen == ({0.0, 6.0} if math.prod(shape) else set())


def test_views_are_dropped_from_as_they_are_read():
    torch.manual_seed(3)
    turned = torch.arange(1.0, 1001.0).view(20, 50).T
    result = Dropout(0.5)(turned)
    kept = result > 0
    assert_share(kept, 0.5)
    assert torch.equal(result[kept], 2 * turned[kept])


@pytest.mark.parametrize("layer", [Dropout(0.0), Dropout(0.5).eval()])
def test_nothing_is_dropped_without_a_share_or_in_evaluation_mode(layer):
    given = torch.randn(999, generator=torch.Generator().manual_seed(4))
    assert torch.equal(layer(given), given)


def test_everything_is_dropped_at_1():
    assert not Dropout(1.0)(torch.ones(100)).any()


def test_a_seed_gives_the_same_cells_and_the_next_call_others():
    layer, given = Dropout(0.3), torch.ones(5000)
    torch.manual_seed(5)
    first, second = layer(given), layer(given)
    torch.manual_seed(5)
    assert torch.equal(layer(given), first)
    assert_share((first > 0) == (second > 0), 0.3**2 + 0.7**2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_is_the_mask(dtype):
    torch.manual_seed(6)
    given = torch.randn(501, dtype=dtype).requires_grad_()
    weight = torch.randn(501, dtype=dtype)
    result = Dropout(0.2)(given)
    (result * weight).sum().backward()
    torch.testing.assert_close(given.grad, (result / given).detach() * weight, rtol=1e-5, atol=0.0)
    assert torch.equal(given.grad == 0, result == 0)
    assert (given.grad == 0).any()


def test_a_hidden_layer_is_linear_then_bent():
    (block,) = hidden_layers(5, (3,), dropout=0.1)
    assert [type(layer) for layer in block] == [torch.nn.Linear, torch.nn.ReLU, Dropout]
    assert block[0].weight.shape == (3, 5)


def test_layers_are_made_with_it():
    layers = [*bend(0.4, inplace=True), *hidden_layers(3, (4,), 0.4)[0]]
    assert [layer.p for layer in layers if isinstance(layer, Dropout)] == [0.4, 0.4]
