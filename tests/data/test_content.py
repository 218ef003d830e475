"""Counts of a data set."""

import numpy as np

from songrank.data.content import label_histogram


def test_labels_that_differ_little_are_counted_apart():
    labels = np.array([0.1234567, 0.1234568, 2, 2], np.float32)
    assert list(label_histogram([labels]).values()) == [1, 1, 2]
    assert "2" in label_histogram([labels])
