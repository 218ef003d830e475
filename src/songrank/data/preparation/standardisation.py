"""Standardised feature columns for multi-label classification."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from songrank.core.columns import Array
from songrank.core.csr import CSR

_MOST = 10.0  # larger values are clipped, so that an outlier in new rows does not decide a score
_PIECE = 1 << 22


@dataclass(frozen=True)
class Standardisation:
    """x ← (x − mean) / standard deviation of each column over the training rows, clipped to ±10.

    >>> table = CSR.from_lengths([1, 1], index=torch.tensor([0, 0]), value=torch.tensor([2.0, 4.0]))
    >>> fitted = Standardisation.fit(table, np.arange(2), width=2)
    >>> fitted.apply(np.array([[2.0, 0.0], [4.0, 5.0]]))
    array([[-1.,  0.],
           [ 1.,  5.]], dtype=float32)
    """

    mean: Array
    deviation: Array

    @classmethod
    def fit(cls, table: CSR, rows: Array, width: int) -> "Standardisation":
        """From ``index`` and ``value`` of these rows; absent entries are 0. Constant columns are only centred."""
        total = sum((dense.sum(0, dtype=np.float64) for dense in _blocks(table, rows, width)), np.zeros(width))
        mean, squares = total / len(rows), np.zeros(width)
        for dense in _blocks(table, rows, width):
            squares += ((dense.astype(np.float64) - mean) ** 2).sum(0)
        deviation = np.sqrt(squares / len(rows))
        constant = deviation <= 1e-12 * np.abs(mean)
        return cls(mean, np.where(constant | (deviation == 0), 1.0, deviation))

    @classmethod
    def described(cls, told: Mapping[str, Any]) -> "Standardisation":
        """From the section ``features`` of ``dataset.json`` or ``model.json``."""
        return cls(np.array(told["mean"], np.float64), np.array(told["deviation"], np.float64))

    def description(self) -> dict[str, list[float]]:
        """The entries of ``features`` in ``dataset.json``."""
        return {"mean": self.mean.tolist(), "deviation": self.deviation.tolist()}

    def apply(self, dense: Array) -> Array:
        """Standardised rows [rows, width], float32."""
        return np.clip((dense - self.mean) / self.deviation, -_MOST, _MOST).astype(np.float32)

    def rows(self, table: CSR, rows: Array) -> CSR:
        """These rows, standardised."""
        lengths: list[Array] = []
        columns: dict[str, list[Array]] = {"index": [], "value": []}
        for dense in _blocks(table, rows, len(self.mean)):
            scaled = self.apply(dense)
            row, index = np.nonzero(scaled)
            lengths.append(np.bincount(row, minlength=dense.shape[0]))
            columns["index"].append(index.astype(np.int32))
            columns["value"].append(scaled[row, index])
        joined = {name: np.concatenate(parts) for name, parts in columns.items()}
        return CSR.from_lengths(np.concatenate(lengths), **joined)


def _blocks(table: CSR, rows: Array, width: int) -> Iterator[Array]:
    for piece in table.pieces(rows, most_rows=max(1, _PIECE // width)):
        yield piece.dense(torch.arange(len(piece)), width).numpy()
