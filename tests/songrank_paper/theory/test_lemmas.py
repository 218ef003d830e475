"""The lemmas of the appendix: the checks hold, and each fails if a constant or the algorithm is wrong."""

from dataclasses import replace

import pytest
import torch

from songrank_paper.theory import lemmas
from songrank_paper.theory.bounds import find_bounds
from songrank_paper.theory.lemmas import Check
from songrank_paper.theory.trajectory import Steps, run_algorithm_2
from tests.songrank_paper.theory.small_problem import HERE, PROBLEM

BOUNDS = find_bounds(PROBLEM)


@pytest.fixture(scope="module")
def results():
    return lemmas.check(HERE, runs=3, count=40)


@pytest.fixture(scope="module")
def trajectory():
    return run_algorithm_2(PROBLEM, Steps(), runs=3, count=40)


def test_all_lemmas_hold_and_the_step_of_the_proof_that_is_wrong_is_found(results):
    broken = [name for name, one in results.items() if not one["holds"]]
    assert broken == ["faster: unbiased change of G, in the proof"]
    assert len(results) > 12


def test_a_check_compares_every_point_and_allows_only_rounding():
    assert Check((1.0, 2.0), (1.0, 2.0 - 1e-14), "").holds
    assert not Check((1.0, 2.0), (1.0, 2.0 - 1e-9), "").holds
    assert not Check((1.0, float("nan")), (1.0, 2.0), "").holds


@pytest.mark.parametrize("top_k", [False, True])
def test_smoothness_fails_with_a_constant_that_is_too_small(top_k):
    good = lemmas.smoothness(PROBLEM, BOUNDS, top_k=top_k)
    small = {name: 1e-6 * value for name, value in vars(BOUNDS).items() if name.startswith(("l_", "c_"))}
    bad = lemmas.smoothness(PROBLEM, replace(BOUNDS, **small), top_k=top_k)
    assert good.holds
    assert not bad.holds


def test_the_descent_lemma_fails_for_a_step_that_is_too_long():
    constant = lemmas.largest_curvature(PROBLEM, top_k=True)
    assert lemmas.descent(PROBLEM, constant, top_k=True).holds
    assert not lemmas.descent(PROBLEM, constant, top_k=True, rate=60.0 / constant).holds


def test_the_threshold_is_not_lipschitz_with_a_small_constant():
    assert lemmas.threshold_lipschitz(PROBLEM, BOUNDS).holds
    assert not lemmas.threshold_lipschitz(PROBLEM, replace(BOUNDS, l_threshold=BOUNDS.floor)).holds


@pytest.mark.parametrize("which", ["u", "λ", "s"])
def test_an_estimate_that_is_not_updated_breaks_its_bound(which, trajectory):
    """The bounds are of order n δ₀/(|B| γ): for a stuck estimate the sum grows by δ₀ per step and exceeds it."""
    steps = Steps()
    assert lemmas.tracking(trajectory, steps, PROBLEM, which).holds
    first = trajectory.error[which][0]
    stuck = replace(trajectory, error={"λ": [0.0] * 4000, which: [first] * 4000}, moved=[0.0] * 4000)
    stuck = replace(stuck, variance=dict.fromkeys("uλs", 0.0), lipschitz=dict.fromkeys(("g", "λ", "bend"), 0.0))
    assert not lemmas.tracking(stuck, steps, PROBLEM, which).holds


@pytest.mark.parametrize("change", [False, True])
def test_the_msvr_lemma_holds_only_with_its_beta(change, monkeypatch):
    assert lemmas.msvr(PROBLEM, change=change).holds
    monkeypatch.setattr(lemmas, "msvr_beta", lambda gamma, share: 60.0)
    assert not lemmas.msvr(PROBLEM, change=change).holds


def test_the_decomposition_fails_without_the_constants_of_the_errors():
    assert lemmas.decomposition(PROBLEM, BOUNDS).holds
    free = replace(BOUNDS, c_psi=0.0, l_psi=0.0, b_psi=0.0)
    assert not lemmas.decomposition(PROBLEM, free).holds


def test_the_recursion_of_the_momentum_fails_without_its_constants():
    assert lemmas.momentum(PROBLEM, BOUNDS, runs=4, count=20).holds
    assert not lemmas.momentum(PROBLEM, replace(BOUNDS, c_g=0.0, l_g=0.0), runs=4, count=20).holds


def test_the_recursion_of_lambda_fails_with_a_convexity_that_is_too_large():
    assert lemmas.faster_threshold(PROBLEM).holds
    assert not lemmas.faster_threshold(PROBLEM, mu=5.0).holds


def test_the_change_of_g_is_unbiased_if_u_comes_from_another_batch():
    assert lemmas.unbiased_change(PROBLEM, independent=True).holds
    assert not lemmas.unbiased_change(PROBLEM).holds


def test_the_bounds_are_not_exceeded_by_derivatives():
    """Each Lipschitz constant of a plain function against difference quotients at random weights."""
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(1, 10, generator=generator, dtype=torch.float64)
    v = w + 1e-5 * torch.randn(1, 10, generator=generator, dtype=torch.float64)
    length = float((w - v).norm())
    scores = [PROBLEM.scores(at) for at in (w, v)]
    ranks = [PROBLEM.ranks(at) for at in scores]
    assert float((ranks[0] - ranks[1]).abs().max()) / length < BOUNDS.c_g
    thresholds = [PROBLEM.threshold(at) for at in scores]
    assert float((thresholds[0] - thresholds[1]).abs().max()) / length < BOUNDS.c_lambda
    for at, threshold in zip(scores, thresholds, strict=True):
        assert float(PROBLEM.curvature(threshold, at).min()) >= BOUNDS.floor
        assert float(PROBLEM.curvature(threshold, at).max()) <= BOUNDS.l_threshold
