"""Tick positions of a plot's axis."""

import pytest

from songrank.analysis.report.scales import Scale


@pytest.mark.parametrize("log", [False, True])
def test_ticks_are_round_few_and_within(log):
    for low, high in ((0.011, 0.0123), (1e-4, 3.0), (0.5, 0.5), (3.0, 70000.0)):
        scale = Scale.around([low, high], 0.0, 100.0, log=log)
        ticks = scale.ticks()
        assert 2 <= len(ticks) <= 9
        assert all(-1e-6 <= scale.place(tick) <= 100 + 1e-6 for tick in ticks)
        assert len({f"{tick:g}" for tick in ticks}) == len(ticks)
