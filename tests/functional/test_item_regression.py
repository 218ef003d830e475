"""Regressions on other items against float64, however counts are computed and items are divided."""

import numpy as np
import pytest
import torch

from songrank.core.csr import CSR
from songrank.functional import item_regression
from songrank.functional.item_regression import FewItemRegressions, all_item_weights, co_occurrence


def rows_of(users, items, share, seed=0):
    rows = (np.random.default_rng(seed).random((users, items)) < share).astype(float)
    user, item = rows.nonzero()
    return rows, CSR.from_rows(torch.from_numpy(user), users, item=torch.from_numpy(item))


@pytest.mark.parametrize("pair_cost", [0, 10**9])
@pytest.mark.parametrize("entries", [3, 2**22])
@pytest.mark.parametrize("items", [1, 255, 256, 600])
def test_counts_are_exact_in_both_ways(items, entries, pair_cost, monkeypatch):
    rows, table = rows_of(30, items, 0.1)
    monkeypatch.setattr(item_regression, "_PAIR_COST", pair_cost)
    monkeypatch.setattr(item_regression, "_ENTRIES", entries)
    assert co_occurrence(table, items).tolist() == (rows.T @ rows).tolist()


@pytest.mark.parametrize("exact", [0, 3000])
def test_inverses_by_blocks_are_those_of_float64(exact, monkeypatch):
    rows, table = rows_of(300, 700, 0.1)
    monkeypatch.setattr(item_regression, "_EXACT", exact)
    monkeypatch.setattr(item_regression, "_SMALL", 50)
    monkeypatch.setattr(item_regression, "_TILE", 16)
    inverse = np.linalg.inv(rows.T @ rows + 20.0 * np.eye(700))
    expected = np.eye(700) - inverse / np.diag(inverse)
    found = all_item_weights(co_occurrence(table, 700), 20.0).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_float64_is_used_where_float32_loses_the_solution(monkeypatch):
    """Items in pairs that differ for one of 4,000 users, and a small λ."""
    rows, _ = rows_of(4000, 20, 0.5)
    rows = np.concatenate([rows, rows], axis=1)
    rows[np.arange(20), np.arange(20)] = 1 - rows[np.arange(20), np.arange(20)]
    monkeypatch.setattr(item_regression, "_EXACT", 0)
    monkeypatch.setattr(item_regression, "_SMALL", 4)
    inverse = np.linalg.inv(rows.T @ rows + 1e-4 * np.eye(40))
    expected = np.eye(40) - inverse / np.diag(inverse)
    found = all_item_weights(torch.from_numpy(rows.T @ rows).float(), 1e-4).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("counts", [4 * 300**2, 2**31])
def test_regressions_on_few_items_are_solved_in_blocks(counts, monkeypatch):
    rows, table = rows_of(200, 400, 0.1)
    monkeypatch.setattr(item_regression, "_COUNTS", 60_000 if counts < 2**31 else counts)
    monkeypatch.setattr(item_regression, "_CELLS", 500)
    monkeypatch.setattr(item_regression, "_KEPT_CELLS", 400 * 5**2)
    few = FewItemRegressions(table, 400, 9)
    product = rows.T @ rows
    for kept, regularisation in ((9, 5.0), (4, 5.0), (4, 7.0), (9, 7.0)):  # equations are kept for 4 neighbours
        found, explained = few.solve(regularisation, kept)
        for item in range(400):
            own = few.neighbours[item, :kept].long().numpy()
            right = product[own, item]
            expected = np.linalg.solve(product[np.ix_(own, own)] + regularisation * np.eye(kept), right)
            np.testing.assert_allclose(found[item].numpy(), expected, atol=1e-5)
            assert float(explained[item]) == pytest.approx(right @ expected, abs=1e-3)
    assert torch.equal(few.counts(), co_occurrence(table, 400))


def test_the_number_of_threads_is_restored():
    before = torch.get_num_threads()
    FewItemRegressions(rows_of(20, 30, 0.2)[1], 30, 3).solve(1.0)
    assert torch.get_num_threads() == before
