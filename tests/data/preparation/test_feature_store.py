"""The store of feature rows during preparation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank.data import DataError
from songrank.data.preparation.feature_store import FeatureStore


@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_rows_of_growing_width(data, tmp_path_factory):
    store = FeatureStore(tmp_path_factory.mktemp("store"))
    widths = data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=8))
    expected = []
    for at, width in enumerate(widths):
        rows = np.arange(1, 1 + 2 * width, dtype=np.float32).reshape(2, width) + 100 * at
        expected += [np.pad(row, (0, max(widths) - width)) for row in rows]
        if data.draw(st.booleans()):
            store.add(rows)
        else:
            store.add_sparse(np.array([0, width, 2 * width]), np.tile(np.arange(width), 2), rows.reshape(-1))
    order = np.array(data.draw(st.permutations(range(len(expected)))))
    assert store.rows(order).tolist() == np.stack(expected)[order].tolist()
    assert (store.num_rows, store.num_features) == (len(expected), max(widths))


def test_files_stay_few_however_the_width_grows(tmp_path):
    store = FeatureStore(tmp_path)
    for width in range(1, 200):
        store.add(np.ones((1, width), np.float32))
    assert len(list(tmp_path.iterdir())) < 16
    assert store.rows(np.arange(199)).sum(1).tolist() == list(range(1, 200))


def test_more_than_the_disk_can_hold_is_refused_at_once(tmp_path):
    store = FeatureStore(tmp_path)
    with pytest.raises(
        DataError, match=r"1,000,000 rows of 1,000,000,000 features need 4,000,000.0 GB, and .* are free"
    ):
        store.add_sparse(
            np.zeros(1_000_001, np.int64) + np.arange(1_000_001), np.full(1_000_000, 10**9 - 1), np.ones(1)
        )
