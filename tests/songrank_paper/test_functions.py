"""The figure of surrogate functions."""

import math

import pytest
import torch

from songrank_paper.experiment import Plan
from songrank_paper.functions import FigFunctions, smoothed_hinge
from tests.songrank_paper.small_experiments import made


@pytest.mark.parametrize("tau", [0.1, 0.5, 2.0])
def test_smoothed_hinges_are_those_of_the_appendix(tau):
    x = torch.linspace(-3, 3, 61, dtype=torch.float64)
    phi = [tau * math.log1p(math.exp(value / tau)) for value in x.tolist()]
    kappa = [0 if v <= 0 else v * v / (2 * tau) if v <= tau else v - tau / 2 for v in x.tolist()]
    torch.testing.assert_close(smoothed_hinge(x, "softplus", tau), torch.tensor(phi, dtype=x.dtype))
    torch.testing.assert_close(smoothed_hinge(x, "hinge", tau), torch.tensor(kappa, dtype=x.dtype))


def test_functions_need_no_cells_and_say_how_far_they_are_from_the_hinge(tmp_path):
    found = made(FigFunctions(), Plan(), tmp_path)
    assert set(found.figures) == {"hinges", "selectors", "surrogates"}
    gaps = [row[1] for row in found.tables["gaps"].rows]
    assert gaps == pytest.approx([0.5 * math.log(2), 0.25])
    hinge, phi, kappa = (line.get_ydata() for line in found.figures["hinges"].axes[0].lines)
    assert (phi >= hinge).all()
    assert (kappa <= hinge).all()
