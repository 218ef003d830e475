"""Rows of different lengths, collected on disk while a file is read, and taken out in any order as a CSR table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from songrank.core.columns import Array
from songrank.core.csr import CSR, numpy_offsets
from songrank.data.content import Arrays
from songrank.io.arrays import Pieces, ScratchArray


class RowWriter:
    """Appends rows to files in ``folder`` while their number is not known."""

    def __init__(self, folder: Path, name: str, columns: Mapping[str, Any]) -> None:
        self._lengths = ScratchArray(folder / f"{name}.lengths", np.int64)
        self._columns = {key: ScratchArray(folder / f"{name}.{key}", dtype) for key, dtype in columns.items()}

    @property
    def rows(self) -> int:
        """How many rows there are so far."""
        return self._lengths.rows

    def append(self, lengths: Any, **columns: Any) -> None:
        """Add rows of these lengths, and the entries of all of them in each column."""
        self._lengths.append(np.asarray(lengths, np.int64))
        for name, entries in columns.items():
            self._columns[name].append(np.asarray(entries, self._columns[name].dtype))

    def finish(self) -> CSR:
        """All rows, memory-mapped; nothing can be added afterwards."""
        columns = {name: column.mapped() for name, column in self._columns.items()}
        return CSR.from_lengths(self._lengths.mapped(), **columns)


def csr_arrays(table: CSR, prefix: str = "") -> Arrays:
    """A table in memory as a split stores it."""
    columns = {f"{prefix}{name}": column.numpy() for name, column in table.columns.items()}
    return {f"{prefix}offsets": table.offsets.numpy(), **columns}


def stored_rows(table: CSR, rows: Array, prefix: str) -> Arrays:
    """These rows as a split stores them, read piece by piece: ``prefix.offsets`` and ``prefix.NAME`` of each column."""
    offsets = numpy_offsets(table.lengths[torch.from_numpy(rows)])

    def column(name: str) -> Pieces:
        only = CSR(table.offsets, {name: table[name]})
        dtype = table[name].numpy().dtype
        return Pieces((int(offsets[-1]),), dtype, (piece[name].numpy() for piece in only.pieces(rows)))

    return {f"{prefix}.offsets": offsets, **{f"{prefix}.{name}": column(name) for name in table.columns}}
