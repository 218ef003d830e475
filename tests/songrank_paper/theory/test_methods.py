"""Methods of the theory experiments."""

import pytest
import torch

from songrank_paper.theory.methods import METHODS, stepper
from songrank_paper.theory.problem import QUERIES
from songrank_paper.theory.runs import Draws, Scorer
from songrank_paper.theory.still import stand_still
from tests.songrank_paper.theory.small_problem import HERE, PROBLEM


@pytest.mark.parametrize("method", METHODS)
def test_whole_lists_of_all_queries_make_every_method_gradient_descent_at_first(method):
    """With nothing sampled the first step goes along the exact gradient, for F as for F_K at equal scores."""
    draws = Draws(PROBLEM, QUERIES, "all", (0,), 10 if METHODS[method].top_k else None)
    scorer = Scorer(PROBLEM, 1, 1)
    running = stepper(method, scorer, draws, 0.5, [0.5])
    exact = PROBLEM.gradient(scorer.weights(), top_k=METHODS[method].top_k)
    running.step(next(iter(draws.steps(1))))
    if METHODS[method].top_k:  # λ starts at the (K+1)-th largest score, not at λ̂
        cosine = torch.nn.functional.cosine_similarity(running.momentum(), exact)
        assert float(cosine) > 0.95
    else:
        torch.testing.assert_close(running.momentum(), exact, rtol=1e-6, atol=1e-9)


def test_lagged_momentum_is_unbiased_where_the_printed_one_is_not():
    options = {"a": 0.1, "seeds": list(range(300, 364)), "steps": 100, "batch": 5, "irrelevant": 8}
    printed = stand_still(HERE, method="faster-song", **options)
    lagged = stand_still(HERE, method="exact-lag-msvr-song", **options)
    assert printed["bias"] > 4 * printed["error"]
    assert lagged["bias"] < 4 * lagged["error"]
    assert printed["bias"] > 3 * lagged["bias"]
