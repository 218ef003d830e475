"""Collect rows of variable length on disk while reading, and return them in any order as a CSR table."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from songrank.core.columns import Array
from songrank.core.csr import CSR, numpy_offsets
from songrank.data.content import Arrays
from songrank.io.arrays import Pieces, ScratchArray

if TYPE_CHECKING:
    from songrank.data.preparation_options import Scale


class RowWriter:
    """Appends rows to files in ``folder`` while their number is unknown."""

    def __init__(self, folder: Path, name: str, columns: Mapping[str, Any]) -> None:
        self._lengths = ScratchArray(folder / f"{name}.lengths", np.int64)
        self._columns = {key: ScratchArray(folder / f"{name}.{key}", dtype) for key, dtype in columns.items()}

    @property
    def rows(self) -> int:
        """Number of rows so far."""
        return self._lengths.rows

    def append(self, lengths: Any, **columns: Any) -> None:
        """Add rows of these lengths, with their concatenated entries in each column."""
        self._lengths.append(np.asarray(lengths, np.int64))
        for name, entries in columns.items():
            self._columns[name].append(np.asarray(entries, self._columns[name].dtype))

    def finish(self) -> CSR:
        """All rows, memory-mapped; no rows can be added afterwards."""
        columns = {name: column.mapped() for name, column in self._columns.items()}
        return CSR.from_lengths(self._lengths.mapped(), **columns)


class FeatureWriter(RowWriter):
    """Appends rows of sparse features, scaled."""

    def __init__(self, folder: Path, scale: "Scale") -> None:
        super().__init__(folder, "features", {"index": np.int32, "value": np.float32})
        self._scale = scale

    def append(self, lengths: Any, **columns: Any) -> None:
        """Add rows of these lengths."""
        value = scale_rows(np.asarray(lengths, np.int64), np.asarray(columns["value"], np.float32), self._scale)
        super().append(lengths, index=columns["index"], value=value)


def scale_rows(lengths: Array, value: Array, scale: "Scale") -> Array:
    """Scale each row of concatenated rows; rows of zeros are unchanged.

    >>> scale_rows(np.array([2, 1]), np.array([3.0, 4.0, 5.0]), "l2")
    array([0.6, 0.8, 1. ], dtype=float32)
    >>> scale_rows(np.array([2]), np.array([1.0, -1.0]), "log-l2")
    array([ 0.70710677, -0.70710677], dtype=float32)
    """
    if scale in ("none", "standardise"):  # columns are standardised when all rows are known
        return value
    value = value.astype(np.float64)
    if scale == "log-l2":
        value = np.sign(value) * np.log1p(np.abs(value))
    row = np.repeat(np.arange(lengths.shape[0]), lengths)
    norm = np.sqrt(np.bincount(row, value * value, minlength=lengths.shape[0]))
    scaled: Array = value / np.where(norm > 0, norm, 1.0)[row]
    return scaled.astype(np.float32)


def csr_arrays(table: CSR, prefix: str = "") -> Arrays:
    """Arrays of a table in memory, as stored in a split."""
    columns = {f"{prefix}{name}": column.numpy() for name, column in table.columns.items()}
    return {f"{prefix}offsets": table.offsets.numpy(), **columns}


def stored_rows(table: CSR, rows: Array, prefix: str) -> Arrays:
    """Arrays of these rows as stored in a split, read in pieces: ``prefix.offsets``, and ``prefix.NAME`` per column."""
    offsets = numpy_offsets(table.lengths[torch.from_numpy(rows)])

    def column(name: str) -> Pieces:
        only = CSR(table.offsets, {name: table[name]})
        dtype = table[name].numpy().dtype
        return Pieces((int(offsets[-1]),), dtype, (piece[name].numpy() for piece in only.pieces(rows)))

    return {f"{prefix}.offsets": offsets, **{f"{prefix}.{name}": column(name) for name in table.columns}}
