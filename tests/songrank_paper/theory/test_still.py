"""Estimates at a fixed point."""

import pytest
import torch

from songrank_paper.theory.estimation import follow
from tests.songrank_paper.theory.small_problem import PROBLEM, still_path


def test_at_a_fixed_point_the_moving_averages_error_falls_to_what_gamma_leaves():
    late = {}
    for gamma in (0.3, 0.05):
        found = follow(PROBLEM, still_path(150), "moving average", gamma, (0, 1), 25, 8)
        u = torch.tensor(found["u"]).mean(0)
        at = found["steps"].index(1)
        late[gamma] = float(u[-5:].mean() / u[at])
    # Its variance is γ/(2 − γ) of a single estimate's.
    assert late[0.3] == pytest.approx(0.3 / 1.7, rel=0.35)
    assert late[0.05] == pytest.approx(0.05 / 1.95, rel=0.5)
