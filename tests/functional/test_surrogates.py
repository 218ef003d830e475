"""The surrogates of 𝕀(x ≥ 0): values, slopes, and for which of them Lemma 1's condition holds."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank import functional as F
from tests.oracles import formulas as oracles

FUNCTIONS = {
    "squared_hinge": F.squared_hinge,
    "smooth_hinge": F.smooth_hinge,
    "logistic": lambda x, margin: F.logistic(x),
    "sigmoid": lambda x, margin: F.sigmoid(x),
}
CHOICES = [
    ("squared_hinge", 0.3),
    ("squared_hinge", 1.0),
    ("squared_hinge", 2.0),
    ("smooth_hinge", 0.4),
    ("smooth_hinge", 1.0),
    ("smooth_hinge", 1.5),
    ("smooth_hinge", 3.0),
    ("logistic", 1.0),
    ("sigmoid", 1.0),
]
QUALIFYING = [
    ("squared_hinge", 1.0),
    ("squared_hinge", 2.5),
    ("smooth_hinge", 1.5),
    ("smooth_hinge", 4.0),
    ("logistic", 1.0),
    ("logistic", 0.1),
]
every_choice = pytest.mark.parametrize(("name", "margin"), CHOICES)
GRID = [-60.0, -5.0, -2.1, -1.3, -0.7, -0.25, 0.0, 0.2, 0.9, 1.7, 4.0, 55.0]


@every_choice
def test_values_follow_the_formula(name, margin):
    x = torch.tensor(GRID, dtype=torch.float64)
    want = torch.tensor([oracles.SURROGATES[name](value, margin) for value in GRID], dtype=torch.float64)
    surrogate = F.Surrogate(name, margin)
    torch.testing.assert_close(surrogate(x), want, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(surrogate.value_and_slope_(x.clone())[0], want, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(FUNCTIONS[name](x, margin), want, rtol=1e-12, atol=1e-14)


@every_choice
def test_slopes_are_the_derivative_of_the_formula(name, margin):
    want = [oracles.central_difference(lambda v: oracles.SURROGATES[name](v[0], margin), [x])[0] for x in GRID]
    x = torch.tensor(GRID, dtype=torch.float64, requires_grad=True)
    slope = F.Surrogate(name, margin).value_and_slope_(x.detach().clone())[1]
    # Where the second derivative jumps, central differences are exact to first order in their step only.
    torch.testing.assert_close(slope, torch.tensor(want, dtype=torch.float64), rtol=1e-6, atol=1e-5)
    (automatic,) = torch.autograd.grad(FUNCTIONS[name](x, margin).sum(), x)
    torch.testing.assert_close(automatic, slope, rtol=1e-12, atol=1e-14)


@every_choice
def test_at_zero_is_the_value_at_zero(name, margin):
    surrogate = F.Surrogate(name, margin)
    assert surrogate.name == name
    assert surrogate.at_zero == pytest.approx(oracles.SURROGATES[name](0.0, margin), rel=1e-15)
    assert surrogate(torch.zeros((), dtype=torch.float64)).item() == pytest.approx(surrogate.at_zero, rel=1e-15)


@every_choice
@settings(derandomize=True, max_examples=25, deadline=None)
@given(x=st.floats(-100, 100), more=st.floats(0, 50))
def test_surrogates_are_not_negative_and_never_fall(name, margin, x, more):
    value, slope = F.Surrogate(name, margin).value_and_slope_(torch.tensor([x, x + more], dtype=torch.float64))
    assert 0.0 <= value[0] <= value[1]
    assert (slope >= 0).all()


@pytest.mark.parametrize(("name", "margin"), QUALIFYING)
@settings(derandomize=True, max_examples=25, deadline=None)
@given(x=st.one_of(st.floats(-100, 100), st.floats(-1e-6, 1e-6), st.just(0.0)))
def test_those_that_qualify_for_lemma_1_are_at_least_the_indicator(name, margin, x):
    assert F.Surrogate(name, margin)(torch.tensor(x, dtype=torch.float64)) >= (1.0 if x >= 0 else 0.0)


LOGS = [("exponential", 1.0), ("exponential", 0.2), ("tanh", 0.1), ("tanh", 1.0), ("atan", 0.5), ("relu", 0.3)]


@pytest.mark.parametrize(("name", "temperature"), LOGS)
def test_surrogates_with_a_temperature_follow_their_formula(name, temperature):
    base = {"exponential": math.exp, "tanh": lambda x: 1 + math.tanh(x)}
    base |= {"atan": lambda x: max(0.0, 1 + math.atan(x)), "relu": lambda x: max(0.0, 1 + x)}

    def formula(point):
        return base[name](point[0]) ** (1 / temperature)

    surrogate, grid = F.Surrogate(name, temperature=temperature), [-2.1, -1.3, -0.7, 0.0, 0.2, 0.9, 1.7]
    x = torch.tensor(grid, dtype=torch.float64)
    value, slope = surrogate.value_and_slope_(x.clone())
    want = torch.tensor([formula([v]) for v in grid], dtype=torch.float64)
    torch.testing.assert_close(value, want, rtol=1e-12, atol=1e-300)
    torch.testing.assert_close(surrogate(x), want, rtol=1e-12, atol=1e-300)
    rise = torch.tensor([oracles.central_difference(formula, [v])[0] for v in grid], dtype=torch.float64)
    torch.testing.assert_close(slope, rise, rtol=1e-6, atol=1e-7)
    assert surrogate.at_zero == formula([0.0])


@pytest.mark.parametrize(("name", "temperature"), LOGS)
@settings(derandomize=True, max_examples=25, deadline=None)
@given(x=st.one_of(st.floats(-100, 100), st.floats(-1e-6, 1e-6), st.just(0.0)), more=st.floats(0, 50))
def test_surrogates_with_a_temperature_qualify_for_lemma_1_and_never_fall(name, temperature, x, more):
    low, high = torch.tensor([x, x + more], dtype=torch.float64)
    logs, slope = F.Surrogate(name, temperature=temperature).log_value_and_slope(torch.stack([low, high]))
    assert logs[0] <= logs[1] + 1e-12
    assert (slope >= 0).all()
    assert float(logs[0]) >= (0.0 if x >= 0 else -math.inf)


def test_a_temperature_is_for_surrogates_that_have_one():
    with pytest.raises(ValueError, match=r"temperature is 0\.5; expected 1 with surrogate 'squared_hinge'"):
        F.Surrogate("squared_hinge", temperature=0.5)


@pytest.mark.parametrize(("name", "margin"), [("squared_hinge", 0.99), ("smooth_hinge", 1.49), ("sigmoid", 1.0)])
def test_those_that_do_not_qualify_are_below_the_indicator_at_zero(name, margin):
    assert F.Surrogate(name, margin)(torch.zeros((), dtype=torch.float64)) < 1.0


@every_choice
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_far_scores_stay_finite(name, margin, dtype):
    value, slope = F.Surrogate(name, margin).value_and_slope_(torch.tensor([-2e4, 2e4], dtype=dtype))
    assert value.isfinite().all()
    assert slope.isfinite().all()


def test_logistic_keeps_its_small_values_far_below_zero():
    assert F.logistic(torch.tensor(-40.0, dtype=torch.float64)).item() == pytest.approx(math.exp(-40) / math.log(2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("hinge",), "surrogate"), (("squared_hinge", 0.0), "margin"), (("smooth_hinge", -1.0), "margin")],
)
def test_unknown_names_and_margins_that_are_not_positive_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        F.Surrogate(*arguments)
