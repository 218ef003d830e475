"""Estimation errors of moving averages."""

import pytest
import torch

from songrank_paper.theory.estimation import ESTIMATORS, follow
from songrank_paper.theory.problem import FEATURES, QUERIES
from tests.songrank_paper.theory.small_problem import PROBLEM, still_path


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_whole_lists_of_all_queries_leave_no_error(estimator):
    still = follow(PROBLEM, still_path(12), estimator, 0.3, (0,), QUERIES, "all")
    assert max(still["u"][0]) < 1e-20
    assert still["λ"][0][-1] < 0.5 * still["λ"][0][0]


def test_on_a_moving_point_whole_lists_leave_what_each_estimator_misses():
    moving = torch.linspace(0.0, 0.05, 6, dtype=torch.float64).unsqueeze(1).expand(6, FEATURES)
    last = {}
    for estimator in ESTIMATORS:
        last[estimator] = follow(PROBLEM, moving, estimator, 0.3, (0,), QUERIES, "all")["u"][0][-1]
    assert last["STORM"] < 1e-20
    assert last["MSVR"] < 1e-20
    assert 0 < last["MSVR-SP"] < 0.01 * last["moving average"], "second order in the step, against first"
