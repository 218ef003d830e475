"""iALS against its formulas in dense float64."""

import sys

import numpy as np
import pytest
import torch

from songrank.baselines import ImplicitALS, histories
from songrank.core.errors import UserError
from tests.baselines.small_log import dense, prepared

EVERYONE = torch.arange(60)


@pytest.fixture
def implicit():
    return pytest.importorskip("implicit.cpu.als")


def test_a_history_is_scored_by_the_vector_that_fits_it_best(implicit, tmp_path):
    dataset = prepared(tmp_path)
    factors, regularisation, alpha = 5, 2.0, 7.0
    scores = ImplicitALS(dataset["train"]).fit(factors, regularisation, alpha)
    found = scores(histories(dataset["train"], dataset["validation"]), EVERYONE)

    sparse = pytest.importorskip("scipy.sparse")
    own = implicit.AlternatingLeastSquares(
        factors=factors, regularization=regularisation, alpha=alpha, iterations=15, random_state=0
    )
    own.fit(sparse.csr_matrix(dense(dataset, "train")), show_progress=False)
    items = own.item_factors.astype(np.float64)
    for query, row in enumerate(dense(dataset, "train", "validation")):
        confidence = np.diag(np.where(row > 0, alpha, 1.0))
        normal = items.T @ confidence @ items + regularisation * np.eye(factors)
        vector = np.linalg.solve(normal, items.T @ confidence @ row)
        np.testing.assert_allclose(found[query].numpy(), items @ vector, atol=1e-4)


def test_more_iterations_fit_training_better(implicit, tmp_path):
    dataset = prepared(tmp_path)
    rows = dense(dataset, "train")
    weight = np.where(rows > 0, 3.0, 1.0)
    errors = []
    for iterations in (1, 3, 15):
        fitted = ImplicitALS(dataset["train"]).fit(6, 1e-3, 3.0, iterations=iterations)
        errors.append(float((weight * (rows - fitted(histories(dataset["train"]), EVERYONE).numpy()) ** 2).sum()))
    assert errors[0] > errors[1] > errors[2]


def test_it_is_the_same_every_time(implicit, tmp_path):
    train = prepared(tmp_path)["train"]
    one, other = (ImplicitALS(train).fit(4, 1.0, 5.0)(histories(train), EVERYONE) for _ in range(2))
    assert torch.equal(one, other)


def test_without_the_package_one_line_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    with pytest.raises(UserError, match=r'not installed: pip install "songrank\[baselines\]"$'):
        ImplicitALS(prepared(tmp_path)["train"])
