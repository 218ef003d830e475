"""Scales of columns, beside correlations in plain loops."""

import math

import numpy as np
import pytest

from songrank.data.preparation.column_signal import ColumnSignal


def scale_by_hand(lists, feature, num_columns):
    x, y = [], []
    for columns, label in lists:
        for row, relevance in zip(columns, label, strict=True):
            x.append(row[feature] - sum(other[feature] for other in columns) / len(columns))
            y.append(relevance - sum(label) / len(label))
    r = sum(a * b for a, b in zip(x, y, strict=True)) / math.sqrt(sum(a * a for a in x) * sum(b * b for b in y))
    t2 = len(x) * r * r / (1 - r * r)
    return max(0.2, t2 / (t2 + 2 * math.log(num_columns)))


@pytest.mark.parametrize("cut", [1, 4])
def test_scales_are_those_of_plain_loops(cut):
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 8)
    label = rng.integers(0, 3, lengths.sum()).astype(float)
    columns = rng.normal(size=(lengths.sum(), 3)) + np.repeat(rng.normal(size=8) * 9, lengths)[:, None]
    columns[:, 0] += 2 * label
    columns[:, 1] += 0.6 * label
    signal, ends = ColumnSignal(3), np.cumsum(lengths)
    for part in (slice(0, cut), slice(cut, 8)):
        rows = slice(ends[part][0] - lengths[part][0], ends[part][-1])
        signal.add(columns[rows], label[rows], lengths[part])
    lists = list(zip(np.split(columns, ends[:-1]), np.split(label, ends[:-1]), strict=True))
    assert signal.scales() == pytest.approx([scale_by_hand(lists, feature, 3) for feature in range(3)])


def test_constant_columns_and_labels_have_the_least_scale():
    signal = ColumnSignal(2)
    signal.add(np.array([[1.0, 2.0], [1.0, 3.0]]), np.array([1.0, 1.0]), np.array([2]))
    assert signal.scales().tolist() == [0.2, 0.2]


def test_a_column_with_signal_is_kept_as_rows_grow():
    rng = np.random.default_rng(1)
    label = rng.integers(0, 2, 20_000).astype(float)
    columns = np.stack([label + 3 * rng.normal(size=20_000), rng.normal(size=20_000)], axis=1)
    signal = ColumnSignal(2)
    signal.add(columns, label, np.full(2000, 10))
    assert signal.scales()[0] > 0.99
    assert signal.scales()[1] < 0.9
