"""Baselines for cold items."""

import numpy as np
import torch

from songrank.baselines.content import content, feature_popularity
from songrank.core.csr import CSR
from songrank.core.feature_rows import FeatureRows
from songrank.data import CatalogueSplit

ITEMS, WIDTH, DENSE = 30, 6, 2


def some(seed=0):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 4, (ITEMS,), generator=generator)
    index = torch.cat([torch.randperm(WIDTH, generator=generator)[:n] for n in lengths.tolist()])
    value, dense = torch.rand(index.shape[0], generator=generator), torch.randn(ITEMS, DENSE, generator=generator)
    item = torch.randint(0, 24, (60,), generator=generator)
    train = CatalogueSplit("train", ITEMS, CSR.from_lengths([20, 20, 20], item=item, label=torch.ones(60)))
    trained = torch.bincount(item, minlength=ITEMS) > 0
    return train, FeatureRows.of(dense, lengths, index, value, WIDTH, trained)


def matrix(rows):
    found = np.zeros((ITEMS, WIDTH))
    for row in range(ITEMS):
        for at in range(int(rows.offsets[row]), int(rows.offsets[row + 1])):
            found[row, int(rows.index[at])] += float(rows.value[at])
    return found


def test_predicted_popularity_is_that_of_ridge_regression():
    train, rows = some()
    x = np.concatenate([matrix(rows), rows.dense.numpy()], axis=1)
    y = np.log1p(np.bincount(train.item.numpy(), minlength=ITEMS))
    known = np.flatnonzero(rows.trained.numpy())
    kept, held = known[np.arange(len(known)) % 5 != 0], known[np.arange(len(known)) % 5 == 0]

    def fitted(items, ridge):
        mean = y[items].mean()
        a = x[items].T @ x[items] + ridge * np.eye(x.shape[1])
        return mean + x @ np.linalg.solve(a, x[items].T @ (y[items] - mean))

    ridge = min((1, 10, 100, 1000), key=lambda r: ((fitted(kept, r)[held] - y[held]) ** 2).mean())
    found = feature_popularity(train, rows)(torch.tensor([2, 0]))
    np.testing.assert_allclose(found.numpy(), np.stack([fitted(known, ridge)] * 2), rtol=1e-5)


def test_similarity_is_the_cosine_with_the_items_of_the_user():
    train, rows = some(1)
    x = matrix(rows)
    weight = np.log((ITEMS + 1) / ((x > 0).sum(0) + 1)) + 1
    x = x * weight
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    query = torch.tensor([1, 2, 0])
    wanted = [x @ x[np.unique(train.item[20 * q : 20 * q + 20].numpy())].sum(0) for q in query.tolist()]
    np.testing.assert_allclose(content(train, rows)(query).numpy(), np.stack(wanted), rtol=1e-5)
