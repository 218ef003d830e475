"""The linear map from features to vectors."""

import numpy as np
import torch

from songrank.core.feature_rows import FeatureRows
from songrank.functional.feature_map import FeatureMap

ROWS, WIDTH, DENSE, K = 40, 8, 3, 5


def some():
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(0, 4, (ROWS,), generator=generator)
    index = torch.cat([torch.randperm(WIDTH, generator=generator)[:n] for n in lengths.tolist()])
    value, dense = torch.rand(index.shape[0], generator=generator), torch.randn(ROWS, DENSE, generator=generator)
    trained = torch.rand(ROWS, generator=generator) < 0.8
    rows = FeatureRows.of(dense, lengths, index, value, WIDTH, trained)
    matrix = np.zeros((ROWS, WIDTH + DENSE))
    for row in range(ROWS):
        for at in range(int(rows.offsets[row]), int(rows.offsets[row + 1])):
            matrix[row, int(index[at])] += float(value[at])
    matrix[:, WIDTH:] = dense.numpy()
    return rows, matrix, torch.randn(ROWS, K, generator=generator)


def test_the_map_is_that_of_ridge_regression_with_the_best_regularisation():
    rows, x, vectors = some()
    y, known = vectors.double().numpy(), np.flatnonzero(rows.trained.numpy())

    def fitted(items, ridge):
        mean = y[items].mean(0)
        normal = x[items].T @ x[items] + ridge * np.eye(x.shape[1])
        return mean + x @ np.linalg.solve(normal, x[items].T @ (y[items] - mean))

    held, kept = known[::5], np.delete(known, np.s_[::5])
    ridge = min((1, 10, 100, 1000), key=lambda one: ((fitted(kept, one)[held] - y[held]) ** 2).sum())
    found = FeatureMap.fit(rows, vectors)
    np.testing.assert_allclose(found.values(rows).numpy(), fitted(known, ridge), rtol=1e-4, atol=1e-5)


def test_rows_without_training_data_have_no_influence():
    rows, _, vectors = some()
    other = torch.where(rows.trained.unsqueeze(1), vectors, 1e6)
    torch.testing.assert_close(FeatureMap.fit(rows, other).weight, FeatureMap.fit(rows, vectors).weight)


def test_a_single_row_or_constant_vectors_give_their_mean():
    rows, _, vectors = some()
    one = FeatureRows(**{**rows.tensors(), "trained": torch.arange(ROWS) == 3, "width": WIDTH})
    torch.testing.assert_close(FeatureMap.fit(one, vectors).mean, vectors[3])
    constant = FeatureMap.fit(rows, torch.ones(ROWS, K)).values(rows)
    torch.testing.assert_close(constant, torch.ones(ROWS, K))
