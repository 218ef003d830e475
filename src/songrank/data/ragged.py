"""Rows of different lengths, one after the other: collected on disk while a file is read, taken out in any order."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from songrank.io.storage import Array, Pieces, ScratchArray

_PIECE_ENTRIES = 1 << 20


@dataclass(frozen=True)
class Ragged:
    """Row r holds the entries ``offsets[r]`` to ``offsets[r + 1]`` of every column.

    >>> table = Ragged(np.array([0, 2, 2, 3]), {"word": np.array([7, 8, 9])})
    >>> taken = table.take(np.array([2, 0]))
    >>> taken.offsets.tolist(), taken.columns["word"].tolist()
    ([0, 1, 3], [9, 7, 8])
    """

    offsets: Array
    columns: Mapping[str, Array]

    def __len__(self) -> int:
        return int(self.offsets.shape[0]) - 1

    def lengths(self, rows: Array | None = None) -> Array:
        """How many entries these rows have, or all rows."""
        if rows is None:
            return np.diff(self.offsets)
        lengths: Array = self.offsets[rows + 1] - self.offsets[rows]
        return lengths

    def row_of_entries(self) -> Array:
        """The row that each entry belongs to."""
        return np.repeat(np.arange(len(self)), self.lengths())

    def take(self, rows: Array) -> "Ragged":
        """These rows, in memory."""
        lengths = self.lengths(rows)
        offsets = _ends(lengths)
        at = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Ragged(offsets, {name: column[at] for name, column in self.columns.items()})

    def pieces(self, rows: Array, most_rows: int = _PIECE_ENTRIES) -> Iterator["Ragged"]:
        """These rows, some at a time, so that they need not fit in memory."""
        ends = np.cumsum(self.lengths(rows))
        start = 0
        while start < rows.shape[0]:
            before = ends[start - 1] if start else 0
            stop = int(np.searchsorted(ends, before + _PIECE_ENTRIES, side="right"))
            stop = min(max(start + 1, stop), start + most_rows)
            yield self.take(rows[start:stop])
            start = stop

    def arrays(self, rows: Array, prefix: str) -> dict[str, Array | Pieces]:
        """These rows as a split stores them, under ``prefix.offsets`` and ``prefix.`` with the name of each column."""
        offsets = _ends(self.lengths(rows))

        def column(name: str) -> Pieces:
            pieces = (piece.columns[name] for piece in self.only(name).pieces(rows))
            return Pieces((int(offsets[-1]),), self.columns[name].dtype, pieces)

        return {f"{prefix}.offsets": offsets, **{f"{prefix}.{name}": column(name) for name in self.columns}}

    def only(self, name: str) -> "Ragged":
        """The same rows with one column."""
        return Ragged(self.offsets, {name: self.columns[name]})


class RaggedWriter:
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

    def finish(self) -> Ragged:
        """All rows; nothing can be added afterwards."""
        columns = {name: column.mapped() for name, column in self._columns.items()}
        return Ragged(_ends(self._lengths.mapped()), columns)


def _ends(lengths: Array) -> Array:
    offsets = np.zeros(lengths.shape[0] + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
