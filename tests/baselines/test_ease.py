"""EASE against its definition: a ridge regression of each item on all others, in float64."""

import numpy as np
import pytest
import torch

from songrank.baselines import Ease, ease, histories
from songrank.core.csr import CSR
from songrank.core.errors import UserError
from songrank.data import CatalogueSplit
from songrank.functional.item_regression import all_item_weights, co_occurrence


def random_rows(queries=50, items=20, share=0.2):
    return (np.random.default_rng(4).random((queries, items)) < share).astype(float)


def split(rows):
    query, item = rows.nonzero()
    return CatalogueSplit("train", rows.shape[1], CSR.from_rows(query, rows.shape[0], item=item))


def regressions(rows, regularisation):
    items = rows.shape[1]
    weights = np.zeros((items, items))
    for item in range(items):
        others = [other for other in range(items) if other != item]
        inputs = rows[:, others]
        normal = inputs.T @ inputs + regularisation * np.eye(items - 1)
        weights[others, item] = np.linalg.solve(normal, inputs.T @ rows[:, item])
    return weights


@pytest.mark.parametrize("regularisation", [0.5, 20.0, 3000.0])
def test_each_column_is_the_ridge_regression_of_an_item_on_all_others(regularisation):
    rows = random_rows()
    found = all_item_weights(co_occurrence(histories(split(rows)), rows.shape[1]), regularisation).numpy()
    np.testing.assert_allclose(found, regressions(rows, regularisation), atol=1e-6)


def test_two_items_by_hand():
    assert co_occurrence(CSR.from_lengths([2, 1], item=[0, 1, 1]), num_items=2).tolist() == [[1, 1], [1, 2]]
    found = all_item_weights(torch.tensor([[1.0, 1.0], [1.0, 2.0]]), regularisation=1.0)
    np.testing.assert_allclose(found.numpy(), [[0, 1 / 2], [1 / 3, 0]], rtol=1e-6)


def test_the_diagonal_is_zero():
    assert bool((all_item_weights(co_occurrence(histories(split(random_rows())), 20), 1.0).diagonal() == 0).all())


@pytest.mark.parametrize("items", [1, 255, 256, 600])
def test_counts_are_exact_however_many_blocks_of_columns_there_are(items):
    rows = random_rows(30, items, 0.1)
    assert co_occurrence(histories(split(rows)), rows.shape[1]).tolist() == (rows.T @ rows).tolist()


def test_scores_are_those_of_the_formula_for_other_histories_than_training_too():
    rows = random_rows()
    later = np.maximum(rows, random_rows()[::-1])
    later[7] = 0
    inverse = np.linalg.inv(rows.T @ rows + 5.0 * np.eye(20))
    expected = later @ (np.eye(20) - inverse / np.diag(inverse))
    expected[7] = rows.mean(0)  # an empty history: the popularity
    query = torch.tensor([7, 3, 49, 3])
    found = Ease(split(rows)).fit(regularisation=5.0)(histories(split(later)), query)
    np.testing.assert_allclose(found.numpy(), expected[query], atol=1e-5)


def test_items_that_are_nearly_the_same_keep_their_digits():
    rows = np.repeat(random_rows(40, 8, 0.5), 500, axis=0)
    twins = rows.copy()
    for item in range(8):  # five of 20,000 queries tell an item from its twin
        twins[40 * item :: 4000 + item, item] = 1 - twins[40 * item :: 4000 + item, item]
    rows = np.concatenate([rows, twins], axis=1)
    found = all_item_weights(co_occurrence(histories(split(rows)), rows.shape[1]), 0.01).numpy()
    np.testing.assert_allclose(found, regressions(rows, 0.01), atol=1e-6)


@pytest.mark.parametrize(
    ("free", "items", "message"),
    [
        (2**30, 20_000, "EASE on 20,000 items needs 9 GB of memory, but 1 GB are free; leave it out"),
        (None, 25_001, "EASE on 25,001 items needs 14 GB of memory; leave it out"),
    ],
)
def test_more_items_than_memory_holds_are_refused_in_one_line(monkeypatch, free, items, message):
    monkeypatch.setattr(ease, "free_memory", lambda: free)
    with pytest.raises(UserError, match=message):
        Ease(CatalogueSplit("train", items, CSR.from_lengths([0], item=torch.zeros(0, dtype=torch.int64))))
