"""Scales of a plot, and the ticks of its axes."""

import math

import pytest

from songrank.analysis.report.plots import Scale, tick_label


def test_a_scale_places_by_value_or_by_order_of_magnitude():
    assert Scale(0.0, 10.0, 100.0, 200.0).place(2.5) == 125.0
    assert Scale(1.0, 100.0, 0.0, 10.0, log=True).place(10.0) == 5.0
    assert Scale.around([1.0, 3.0, math.nan], 0.0, 100.0).low == 0.9


def test_ticks_are_round_numbers_in_few_letters():
    assert Scale(0.0, 0.23, 0.0, 1.0).ticks() == [0.0, 0.05, 0.1, 0.15, 0.2]
    assert Scale(0.5, 2000.0, 0.0, 1.0, log=True).ticks() == [1.0, 10.0, 100.0, 1000.0]
    assert [tick_label(value) for value in (0.25, 20000.0, 1e-5)] == ["0.25", "20,000", "1e-05"]


@pytest.mark.parametrize("log", [False, True])
def test_ticks_are_round_few_and_within(log):
    for low, high in ((0.011, 0.0123), (1e-4, 3.0), (0.5, 0.5), (3.0, 70000.0)):
        scale = Scale.around([low, high], 0.0, 100.0, log=log)
        ticks = scale.ticks()
        assert 2 <= len(ticks) <= 9
        assert all(-1e-6 <= scale.place(tick) <= 100 + 1e-6 for tick in ticks)
        assert len({f"{tick:g}" for tick in ticks}) == len(ticks)
