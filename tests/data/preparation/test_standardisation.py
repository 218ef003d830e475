"""Standardised columns, against numpy in float64."""

import numpy as np
import pytest

from songrank.core.csr import CSR
from songrank.data import prepare
from songrank.data.adapters.label_sets import read_label_sets
from songrank.data.preparation.standardisation import Standardisation
from songrank.data.readers.label_table import LabelledRows, sparse_block

GENERATOR = np.random.default_rng(0)
DENSE = (GENERATOR.normal(size=(40, 5)) * [1, 100, 1e-3, 1, 0] + [0, 1e4, 0, -3, 7]).astype(np.float32)
DENSE[::3, 0] = 0.0


def test_columns_have_mean_0_and_deviation_1_on_training_rows():
    lengths, index, value = sparse_block(DENSE)
    table, rows = CSR.from_lengths(lengths, index=index, value=value), np.arange(0, 40, 2)
    fitted = Standardisation.fit(table, rows, 5)
    train = DENSE[rows].astype(np.float64)
    deviation = np.where(train.std(0) > 0, train.std(0), 1.0)
    expected = np.clip((DENSE - train.mean(0)) / deviation, -10, 10)
    np.testing.assert_allclose(fitted.rows(table, np.arange(40)).dense(range(40), 5), expected, rtol=1e-5, atol=1e-6)
    assert Standardisation.described(fitted.description()).apply(DENSE).tolist() == fitted.apply(DENSE).tolist()


def test_an_outlier_in_new_rows_is_clipped():
    fitted = Standardisation(np.zeros(1), np.ones(1))
    assert fitted.apply(np.array([[1e30], [-1e30], [3.0]])).ravel().tolist() == [10.0, -10.0, 3.0]


@pytest.mark.parametrize("seed", [0, 1])
def test_statistics_are_of_training_rows_only(tmp_path, seed):
    labels, ids = read_label_sets([["a"], ["b"]] * 20, 40)

    def prepared(name, dense):
        rows = LabelledRows(labels, ids, features=[sparse_block(dense)], num_features=5)
        return prepare("label-table", rows, tmp_path / name, scale="standardise", validation=0.2, test=0, seed=seed)

    first = prepared("one", DENSE)
    other = DENSE.copy()
    other[list(first.split_query_ids("validation"))] += 5
    prepared("two", other)
    train = [(tmp_path / name / "train.safetensors").read_bytes() for name in ("one", "two")]
    assert train[0] == train[1]
