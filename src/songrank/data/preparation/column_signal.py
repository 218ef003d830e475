"""Scales of columns by their correlation with the label within queries, so that columns without signal count less."""

import math

import numpy as np

from songrank.core.columns import Array

LEAST = 0.2  # scale of a column without correlation, which can still matter together with others


class ColumnSignal:
    """t² of the correlation of each column with the label, both centred within their query, over training rows.

    With r the correlation over n rows, t² = n r² / (1 − r²) is about 1 for a column without signal, and among F such
    columns the largest is about 2 ln F. The scale t² / (t² + 2 ln F), at least 0.2, is an empirical shrinkage: it tends
    to 1 with the number of rows. An MLP with weight decay then prefers columns with signal.

    >>> signal = ColumnSignal(2)
    >>> signal.add(np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]]), np.array([0.0, 1.0, 2.0]), np.array([3]))
    >>> signal.scales().round(2).tolist()                          # correlated, and constant
    [1.0, 0.2]
    """

    def __init__(self, num_columns: int) -> None:
        self.count, self.label = 0, 0.0
        self.squares, self.products = np.zeros((2, num_columns))

    def add(self, columns: Array, label: Array, lengths: Array) -> None:
        """Add whole lists: columns [rows, F] without missing values, labels [rows], and lengths of at least 1."""
        x, y = _centred(columns.astype(np.float64), lengths), _centred(label.astype(np.float64)[:, None], lengths)
        self.count += y.shape[0]
        self.label += float(np.square(y).sum())
        self.squares += np.square(x).sum(0)
        self.products += (x * y).sum(0)

    def scales(self) -> Array:
        """The scale of each column, from 0.2 to 1."""
        possible = self.squares * self.label
        r2 = np.divide(np.square(self.products), possible, out=np.zeros_like(possible), where=possible > 0)
        t2 = self.count * r2 / np.maximum(1 - r2, 1e-9)
        noise = 2 * math.log(max(2, t2.shape[0]))
        scales: Array = np.maximum(LEAST, t2 / (t2 + noise))
        return scales


def _centred(values: Array, lengths: Array) -> Array:
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    centred: Array = values - np.repeat(np.add.reduceat(values, starts) / lengths[:, None], lengths, axis=0)
    return centred
