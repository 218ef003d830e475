"""Schedules of step sizes and memory rates."""

import pytest
import torch

from songrank.losses.schedules import Schedule


@pytest.mark.parametrize("schedule", [Schedule(), Schedule(c0=10.0, a=2.0, c=0.5)])
def test_both_rates_follow_the_formula(schedule):
    steps = [1, 7, 1000, 10**6]
    c = schedule.c0 ** (1 / 3) if schedule.c is None else schedule.c
    t = torch.tensor(steps, dtype=torch.float64)
    eta = [c / (schedule.c0 + step) ** (1 / 3) for step in steps]
    torch.testing.assert_close(schedule.eta(t).tolist(), eta)
    for share in (1.0, 0.01):
        gamma = [min(0.5, schedule.a * one**2 / share) for one in eta]
        torch.testing.assert_close(schedule.gamma(t, share).tolist(), gamma)


@pytest.mark.parametrize("name", ["c0", "a", "c"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf")])
def test_a_wrong_constant_is_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} is "):
        Schedule(**{name: value})
