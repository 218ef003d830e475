"""The CSR type, rows of variable length in flat arrays, and batched binary search over sorted rows."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from songrank.core.checks import fail


@dataclass(frozen=True, eq=False)
class CSR:
    """Rows of variable length: row r has entries ``offsets[r]`` to ``offsets[r + 1] - 1`` of every column.

    Args:
        offsets: int64 [rows + 1], ascending from 0.
        columns: one value per entry, by name.

    >>> table = CSR.from_lengths([2, 0, 1], item=[7, 8, 9])
    >>> len(table), table.lengths.tolist(), table.row_of_entries().tolist()
    (3, [2, 0, 1], [0, 0, 2])
    >>> taken = table.take([2, 0])
    >>> taken.offsets.tolist(), taken["item"].tolist()
    ([0, 1, 3], [9, 7, 8])
    >>> table.last([0, 2, 1], length=1).tolist()
    [[8], [9], [-1]]
    >>> [piece["item"].tolist() for piece in table.pieces([2, 0], entries=2)]
    [[9], [7, 8]]
    """

    offsets: Tensor
    columns: Mapping[str, Tensor]

    @classmethod
    def from_lengths(cls, lengths: Any, **columns: Any) -> "CSR":
        """A table from row lengths and the concatenated entries of all rows."""
        made = {name: torch.as_tensor(entries) for name, entries in columns.items()}
        table = cls(offsets(torch.as_tensor(lengths, dtype=torch.int64)), made)
        for name, column in made.items():
            if (count := column.shape[0]) != table.num_entries:
                fail(f"column {name!r}", f"of length {count}", f"{table.num_entries} entries, the sum of lengths")
        return table

    @classmethod
    def from_rows(cls, row: Any, num_rows: int, **columns: Any) -> "CSR":
        """A table from ascending row numbers, one per entry."""
        return cls.from_lengths(torch.bincount(torch.as_tensor(row), minlength=num_rows), **columns)

    def __len__(self) -> int:
        return self.offsets.shape[0] - 1

    def __getitem__(self, name: str) -> Tensor:
        return self.columns[name]

    @property
    def lengths(self) -> Tensor:
        """Number of entries in each row."""
        return self.offsets.diff()

    @property
    def num_entries(self) -> int:
        """Number of entries in all rows."""
        return int(self.offsets[-1])

    def row_of_entries(self) -> Tensor:
        """The row of each entry."""
        return segment_rows(self.lengths)

    def entries(self, rows: Any) -> tuple[Tensor, Tensor]:
        """For each entry of these rows, the index in ``rows`` and the position in the columns."""
        rows = torch.as_tensor(rows, device=self.offsets.device)
        begin = self.offsets[rows]
        return segment_rows(self.offsets[rows + 1] - begin, begin)

    def take(self, rows: Any) -> "CSR":
        """These rows, in this order."""
        rows = torch.as_tensor(rows, device=self.offsets.device)
        at = self.entries(rows)[1]
        count = self.offsets[rows + 1] - self.offsets[rows]
        return CSR(offsets(count), {name: column[at] for name, column in self.columns.items()})

    def slice(self, first: int, last: int) -> "CSR":
        """The rows ``first`` to ``last`` − 1, as views of the columns."""
        bounds = self.offsets[first : last + 1]
        entries = slice(int(bounds[0]), int(bounds[-1]))
        return CSR(bounds - bounds[0], {name: column[entries] for name, column in self.columns.items()})

    def pieces(self, rows: Any, entries: int = 1 << 20, most_rows: int = 1 << 20) -> Iterator["CSR"]:
        """These rows in chunks of about ``entries`` entries and 1 to ``most_rows`` rows."""
        rows = torch.as_tensor(rows)
        ends = offsets(self.offsets[rows + 1] - self.offsets[rows])
        first = 0
        while first < rows.shape[0]:
            last = int(torch.searchsorted(ends, ends[first] + entries, right=True)) - 1
            last = min(max(first + 1, last), first + most_rows)
            yield self.take(rows[first:last])
            first = last

    def dense(self, rows: Any, width: int, index: str = "index", value: str = "value") -> Tensor:
        """[R, width] float32: these rows as a matrix, with column ``value`` at the positions in column ``index``."""
        rows = torch.as_tensor(rows, device=self.offsets.device)
        owner, at = self.entries(rows)
        matrix = torch.zeros(rows.shape[0], width, device=self.offsets.device)
        matrix[owner, self.columns[index][at].long()] = self.columns[value][at].float()
        return matrix

    def tail(self, length: int) -> "CSR":
        """The last ``length`` entries of each row."""
        count = self.lengths
        begin = self.offsets[1:] - count.clamp(max=length)
        kept = torch.arange(self.num_entries, device=self.offsets.device) >= torch.repeat_interleave(begin, count)
        return CSR(offsets(count.clamp(max=length)), {name: column[kept] for name, column in self.columns.items()})

    def last(self, rows: Any, length: int, width: int | None = None, column: str = "item") -> Tensor:
        """[R, T]: the last ``length`` entries of these rows, padded with −1; for ``width`` see :meth:`span`."""
        rows = torch.as_tensor(rows, device=self.offsets.device)
        end = self.offsets[rows + 1]
        begin = torch.maximum(self.offsets[rows], end - length)
        return self.span(begin, end - begin, width, column)

    def span(self, begin: Tensor, count: Tensor, width: int | None = None, column: str = "item") -> Tensor:
        """[R, T]: ``count`` entries from position ``begin``, padded with −1 at the end.

        T is ``width``, by default the largest count; passing it avoids a device synchronisation.
        """
        if width is None:
            width = int(count.max()) if count.numel() else 0
        place = torch.arange(width, device=begin.device)
        there = place < count.unsqueeze(1)
        if not self.columns[column].numel():
            return torch.full_like(there, -1, dtype=torch.int64)
        at = torch.where(there, begin.unsqueeze(1) + place, 0)
        return torch.where(there, self.columns[column][at].long(), -1)

    def to(self, device: torch.device | str) -> "CSR":
        """The same table on another device."""
        return CSR(self.offsets.to(device), {name: column.to(device) for name, column in self.columns.items()})


def offsets(lengths: Tensor) -> Tensor:
    """Cumulative row starts, with the total at the end."""
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0))


def numpy_offsets(lengths: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """:func:`offsets` of an array, as an array."""
    return np.concatenate(([0], np.cumsum(np.asarray(lengths), dtype=np.int64)))


@overload
def segment_rows(lengths: Tensor) -> Tensor: ...
@overload
def segment_rows(lengths: Tensor, start: Tensor) -> tuple[Tensor, Tensor]: ...
def segment_rows(lengths: Tensor, start: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
    """The row of each entry, from row lengths; with the ``start`` of each row, also its position.

    Synchronises with the device.
    """
    row = torch.repeat_interleave(torch.arange(lengths.shape[0], device=lengths.device), lengths)
    if start is None:
        return row
    at = (start - (lengths.cumsum(0) - lengths)).index_select(0, row)
    return row, at.add_(torch.arange(row.shape[0], device=row.device))


def search_depth(longest: int) -> int:
    """Number of steps of a binary search over rows of at most ``longest`` entries."""
    return max(longest, 0).bit_length()


def partition_point(start: Tensor, stop: Tensor, depth: int, holds: Callable[[Tensor], Tensor]) -> Tensor:
    """For each element the first index in [start, stop) where ``holds`` is False, ``stop`` if it always holds.

    ``holds`` maps indices to booleans, True up to some index of each row and False after it. Every search takes
    ``depth`` steps, without device synchronisation.
    """
    position, final = start - 1, stop - 1
    for bit in range(depth - 1, -1, -1):
        candidate = position + (1 << bit)
        inside = torch.minimum(candidate, final).clamp_min(0)
        position = torch.where((candidate <= final) & holds(inside), candidate, position)
    return position + 1
