"""Descents of the theory experiments."""

import pytest
import torch

from songrank_paper.theory.descent import descend
from songrank_paper.theory.methods import METHODS
from songrank_paper.theory.problem import FEATURES
from tests.songrank_paper.theory.small_problem import HERE, PROBLEM


@pytest.mark.parametrize("method", METHODS)
def test_a_descent_is_a_function_of_its_options(method):
    options = {"method": method, "a": 0.1, "rates": [0.3, 0.1], "seeds": [0, 1], "steps": 4}
    first = descend(HERE, **options, batch=5, irrelevant=8)
    assert first == descend(HERE, **options, batch=5, irrelevant=8)
    assert first["mean"][0][0] != first["mean"][0][1], "seeds differ"
    assert first["mean"][0] != first["mean"][1], "rates differ"
    start = float(
        PROBLEM.squared_gradient(torch.zeros(1, FEATURES, dtype=torch.float64), top_k=METHODS[method].top_k)[0]
    )
    assert first["mean"][0][0][0] == pytest.approx(start, rel=1e-12)
