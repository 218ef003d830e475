"""The tables in which losses remember, and how an estimate enters a row."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank import SONG, SlateSampler
from songrank.functional import Surrogate
from songrank.losses.memory import (
    UNSEEN,
    MemoryTable,
    log_moving_average,
    log_msvr,
    merge_states,
    moving_average,
    msvr,
    msvr_beta,
)
from tests.losses.fixed_model import task, true_ranks

numbers = st.lists(st.floats(-100, 100), min_size=4, max_size=4).map(lambda x: torch.tensor(x, dtype=torch.float64))
shares = st.floats(0.01, 0.99)


def filled(num_rows=10, rows=None, **options):
    table = MemoryTable(num_rows, rows, **options)
    held = torch.arange(table.first, table.last)
    table.write(held, held.double() / 3)
    return table


def test_rows_read_back_what_was_written_and_nan_before():
    table = MemoryTable(5)
    table.write(torch.tensor([4, 1]), torch.tensor([1.5, -2.0]))
    assert table.read(torch.tensor([1, 4])).tolist() == [-2.0, 1.5]
    assert bool(table.read(torch.tensor([0, 2, 3])).isnan().all())
    table.reset(torch.tensor([4]))
    assert bool(table.read(torch.tensor([4])).isnan())
    table.reset()
    assert bool(table.read().isnan().all())


def test_padding_is_written_nowhere_and_reads_as_unseen():
    table = filled()
    before = table.read()
    table.scatter(torch.tensor([[-1, 2], [-1, -1]]), torch.tensor([[9.0, 8.0], [7.0, 6.0]]))
    after = table.read()
    assert after[2] == 8.0
    after[2] = before[2]
    assert torch.equal(after, before)
    assert table.gather(torch.tensor([-1])).item() == UNSEEN


def test_a_value_that_is_not_finite_leaves_its_row_as_it_was():
    table = filled()
    before = table.read()
    table.scatter(torch.tensor([1, 2, 3]), torch.tensor([torch.nan, torch.inf, -torch.inf]))
    assert torch.equal(table.read(), before)
    with pytest.raises(ValueError, match="values is 'not finite'"):
        table.write(torch.tensor([1]), torch.tensor([torch.nan]))


def test_rows_outside_the_range_held_raise():
    table = filled(10, (4, 8))
    for rows in (torch.tensor([3]), torch.tensor([8])):
        with pytest.raises(ValueError, match="row ids from 4 to 7"):
            table.read(rows)
        with pytest.raises((IndexError, RuntimeError)):
            table.gather(rows)
        with pytest.raises((IndexError, RuntimeError)):
            table.scatter(rows, torch.tensor([1.0]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_casting_a_module_never_casts_its_memory(dtype):
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), filled(dtype=dtype))
    before = module[1].read()
    for cast in (module.half, module.bfloat16, module.double, lambda: module.to(torch.float16), module.float):
        cast()
        assert module[1].values.dtype == dtype
        assert torch.equal(module[1].read(), before)
    assert module.half()[0].weight.dtype == torch.float16


def test_memory_moves_with_its_module():
    assert filled().to("meta").values.is_meta
    revived = filled().to("meta").to_empty(device="cpu")
    assert revived.values.dtype == torch.float32


def test_state_loads_into_any_range_that_it_covers():
    state = filled(10, (2, 9)).state_dict()
    part = MemoryTable(10, (4, 6))
    part.load_state_dict(state)
    assert part.read().tolist() == pytest.approx([4 / 3, 5 / 3])
    with pytest.raises(RuntimeError, match="has rows 2:9 of 10 .*; expected rows that cover 0:10 of 10"):
        MemoryTable(10).load_state_dict(state)
    with pytest.raises(RuntimeError, match="Missing key"):
        MemoryTable(10).load_state_dict({})


def test_states_of_neighbours_merge_into_one():
    parts = [filled(10, bounds).state_dict() for bounds in ((7, 10), (0, 3), (3, 7))]
    table = MemoryTable(10)
    table.load_state_dict(merge_states(parts))
    assert torch.equal(table.read(), filled(10).read())
    with pytest.raises(ValueError, match="without gap or overlap"):
        merge_states(parts[:2])


def test_unseen_rows_stay_unseen_through_a_change_of_precision():
    fine = MemoryTable(3, dtype=torch.float64)
    fine.load_state_dict(MemoryTable(3).state_dict())
    assert bool(fine.read().isnan().all())


def test_the_state_of_another_task_is_refused():
    with pytest.raises(RuntimeError, match="has rows 0:20 of 20 .*; expected rows that cover 0:10 of 10"):
        MemoryTable(10).load_state_dict(MemoryTable(20).state_dict())


def test_a_state_loads_into_a_table_that_has_no_storage_yet():
    with torch.device("meta"):
        table = MemoryTable(10)
    table.load_state_dict(filled().state_dict(), assign=True)
    assert torch.equal(table.read(), filled().read())


def test_rows_and_values_may_be_lists():
    table = MemoryTable(3)
    table.write([0, 2], [1.0, 3.0])
    assert table.read([2, 0]).tolist() == [3.0, 1.0]
    table.reset([0])
    assert bool(table.read([0]).isnan())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1,), "num_rows is -1"),
        ((5, (2, 9)), r"row_range is \(2, 9\); expected a range within \(0, 5\)"),
        ((5, None, torch.float16), "dtype is torch.float16; expected torch.float32 or torch.float64"),
    ],
)
def test_bad_tables_are_refused(arguments, message):
    num_rows, rows, *rest = (*arguments, None)[:3] if len(arguments) < 3 else arguments
    with pytest.raises(ValueError, match=message):
        MemoryTable(num_rows, rows, dtype=rest[0] if rest and rest[0] else torch.float32)


def test_moving_averages_agree_in_and_out_of_log_space():
    rows = torch.tensor([0.5, 2.0, UNSEEN], dtype=torch.float64)
    logs = torch.where(rows > UNSEEN, rows.clamp_min(1e-9).log(), rows)
    estimate = torch.tensor([1.0, 3.0, 4.0], dtype=torch.float64)
    for gamma in (0.1, 0.5, 1.0):
        plain = moving_average(rows, estimate, gamma)
        torch.testing.assert_close(log_moving_average(logs, estimate.log(), gamma).exp(), plain)
        assert plain[2] == 4.0


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


def test_a_floor_far_above_all_terms_does_not_overflow():
    low = torch.tensor([-500.0])
    new, lifted = log_msvr(low, low, low, None, 0.1, 0.9, torch.tensor([-3.0]))
    assert new.tolist() == [-3.0]
    assert lifted.tolist() == [True]


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
