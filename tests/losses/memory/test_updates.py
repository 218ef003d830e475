"""How an estimate enters a row: moving average, STORM, MSVR and MSVR-SP."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank import SONG, SlateSampler
from songrank.functional import Surrogate
from songrank.losses.memory import UNSEEN, moving_average, msvr, msvr_beta
from tests.losses.fixed_model import task, true_ranks

numbers = st.lists(st.floats(-100, 100), min_size=4, max_size=4).map(lambda x: torch.tensor(x, dtype=torch.float64))
shares = st.floats(0.01, 0.99)


def test_the_first_visit_sets_u_and_later_visits_move_it_by_gamma():
    relevance, scores = task(3)
    sampler = SlateSampler(relevance, queries_per_batch=1, relevant="all", irrelevant="all")
    slate = sampler.draw(torch.tensor([0]), 0)
    loss = SONG(3, gamma=0.25, dtype=torch.float64)
    loss(scores.unsqueeze(0), slate)
    first = loss.u.read()
    torch.testing.assert_close(first, true_ranks(relevance, scores, Surrogate("squared_hinge", 1.0)))
    loss(-scores.unsqueeze(0), slate)
    second = true_ranks(relevance, -scores, Surrogate("squared_hinge", 1.0))
    torch.testing.assert_close(loss.u.read(), 0.75 * first + 0.25 * second)


@settings(deadline=None)
@given(numbers, numbers, numbers, shares)
def test_without_beta_it_is_the_moving_average(rows, estimate, change, gamma):
    assert torch.equal(msvr(rows, estimate, change, gamma, 0.0), moving_average(rows, estimate, gamma))


@settings(deadline=None)
@given(numbers, numbers, numbers, shares)
def test_with_beta_one_minus_gamma_it_is_storm(rows, now, before, gamma):
    storm = (1 - gamma) * (rows - before) + now
    torch.testing.assert_close(msvr(rows, now, now - before, gamma, 1 - gamma), storm, rtol=1e-12, atol=1e-10)


@given(shares)
def test_a_row_that_every_step_draws_makes_msvr_storm(gamma):
    assert msvr_beta(gamma, 1.0) == 1 - gamma


@given(st.floats(0.01, 0.5), st.integers(1, 50), st.integers(1, 1000))
def test_beta_is_the_papers(gamma, batch, more):
    queries = batch + more
    expected = (queries - batch) / (batch * (1 - gamma)) + (1 - gamma)
    assert msvr_beta(gamma, batch / queries) == pytest.approx(expected, rel=1e-9)


def test_gamma_and_beta_may_differ_from_row_to_row():
    rows, now, change = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.full((2, 2), 5.0), torch.full((2, 2), 0.1)
    gamma, share = torch.tensor([[0.1], [0.4]]), torch.tensor([[0.5], [0.01]])
    both = msvr(rows, now, change, gamma, msvr_beta(gamma, share))
    for row in range(2):
        alone = float(gamma[row]), msvr_beta(float(gamma[row]), float(share[row]))
        torch.testing.assert_close(both[row], msvr(rows[row], now[row], change[row], *alone))


@settings(deadline=None)
@given(numbers, numbers, shares, st.floats(0, 1e4))
def test_a_first_visit_takes_the_estimate_whatever_beta_is(now, before, gamma, beta):
    rows = torch.full_like(now, UNSEEN)
    assert torch.equal(msvr(rows, now, now - before, gamma, beta), now)
    as_storm = msvr(before, now, now - before, gamma, 1 - gamma)
    torch.testing.assert_close(as_storm, now, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_behind_a_target_that_moves_evenly_each_estimator_settles_where_its_recursion_says(share):
    """E[error]_t = (1 − πγ) E[error]_{t−1} + (πβ + πγ − 1)·speed, so MSVR errs least where γ < ½."""
    generator = torch.Generator().manual_seed(0)
    copies, steps, speed, gamma = 20_000, 150, 0.1, 0.3
    tables = {name: torch.zeros(copies, dtype=torch.float64) for name in ("msvr", "storm", "average")}
    betas = {"msvr": msvr_beta(gamma, share), "storm": 1 - gamma, "average": 0.0}
    for t in range(1, steps + 1):
        drawn = torch.rand(copies, generator=generator) < share
        target = torch.tensor(speed * t, dtype=torch.float64)
        for name, rows in tables.items():
            tables[name] = torch.where(drawn, msvr(rows, target, speed, gamma, betas[name]), rows)
    rest = speed * (1 - share) / share
    expected = {
        "msvr": rest / (1 - gamma),
        "storm": -rest / gamma,
        "average": -rest / gamma - speed * (1 - gamma) / gamma,
    }
    for name, rows in tables.items():
        error = rows - speed * steps
        assert float(error.mean()) == pytest.approx(expected[name], abs=5 * float(error.std()) / copies**0.5 + 1e-9), (
            name
        )
