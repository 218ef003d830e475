"""The selectors ψ: values, and slopes that carry their factor α."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank import functional as F
from tests.oracles import formulas as oracles

POINTS = [-30.0, -2.0, -0.4, -1e-3, 0.0, 0.05, 0.13, 0.31, 0.77, 1.4, 2.6, 30.0]


def sigmoid(x, scale):
    return oracles.sigmoid(scale * x)


def step(x, scale):
    t = min(max(scale * x, 0.0), 1.0)
    return 3.0 * t**2 - 2.0 * t**3


every_selector = pytest.mark.parametrize(("name", "formula"), [("sigmoid", sigmoid), ("smooth_step", step)])
every_scale = pytest.mark.parametrize("scale", [0.5, 1.0, 2.0, 7.0])


@every_selector
@every_scale
def test_values_follow_the_formula(name, formula, scale):
    value, _ = F.select(torch.tensor(POINTS, dtype=torch.float64), name, scale)
    want = torch.tensor([formula(x, scale) for x in POINTS], dtype=torch.float64)
    torch.testing.assert_close(value, want, rtol=1e-12, atol=1e-15)


@every_selector
@every_scale
def test_slopes_are_the_derivative_with_its_factor_alpha(name, formula, scale):
    _, slope = F.select(torch.tensor(POINTS, dtype=torch.float64), name, scale)
    want = [oracles.central_difference(lambda v: formula(v[0], scale), [x], step=1e-6)[0] for x in POINTS]
    torch.testing.assert_close(slope, torch.tensor(want, dtype=torch.float64), rtol=1e-6, atol=1e-5 * scale**2)


def test_the_slope_of_the_sigmoid_at_the_threshold_is_a_quarter_of_alpha():
    _, slope = F.sigmoid_selector(torch.zeros(1, dtype=torch.float64), scale=6.0)
    assert slope.item() == 6.0 / 4.0


@settings(derandomize=True, max_examples=60, deadline=None)
@given(x=st.floats(-100, 100), scale=st.floats(0.01, 100))
def test_the_smooth_step_is_at_most_the_indicator_and_one_from_one_over_alpha_on(x, scale):
    value, slope = (part.item() for part in F.smooth_step(torch.tensor(x, dtype=torch.float64), scale))
    assert value <= (1.0 if x > 0 else 0.0)
    if x <= 0:
        assert (value, slope) == (0.0, 0.0)
    if x * scale >= 1:
        assert (value, slope) == (1.0, 0.0)


@every_selector
def test_everything_is_selected_above_a_threshold_of_minus_infinity(name, formula):
    value, slope = F.select(torch.tensor([torch.inf]), name)
    assert (value.item(), slope.item()) == (1.0, 0.0)


def test_an_unknown_selector_is_refused():
    with pytest.raises(ValueError, match="selector"):
        F.select(torch.zeros(1), "relu")
