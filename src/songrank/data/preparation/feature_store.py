"""Temporary storage of feature rows on disk while their number and width are unknown."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from songrank.core.columns import Array
from songrank.core.errors import DataError
from songrank.io.arrays import ScratchArray

CHUNK_BYTES = 16 << 20
MAX_BYTES_IF_EMPTY, MAX_EMPTINESS = 10**9, 50
_GROWTH = 1.5


class FeatureStore:
    """Appends rows to files of growing width, and returns any rows, padded with zeros to the maximum width.

    A row wider than all previous ones starts a new file, at least 1.5 times as wide, to limit the number of files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.num_rows, self.width, self.num_missing, self.num_values = folder, 0, 0, 0, 0
        self.skip = 0  # unused first columns, if features are counted from 1 instead of 0
        self._files: list[ScratchArray] = []
        self._starts: list[int] = []
        self._mapped: list[Array] = []

    @property
    def num_features(self) -> int:
        """Number of features so far."""
        return max(0, self.width - self.skip)

    def add(self, rows: Array) -> None:
        """Append rows [rows, features], NaN for missing values."""
        file = self._file(rows.shape[0], rows.shape[1], rows)
        if rows.shape[1] < file.tail[0]:
            rows = np.pad(rows, ((0, 0), (0, file.tail[0] - rows.shape[1])))
        file.append(rows)
        self.num_rows += rows.shape[0]

    def add_sparse(self, offsets: Array, index: Array, value: Array) -> None:
        """Append CSR rows; absent values are 0, NaN is missing."""
        rows = offsets.shape[0] - 1
        file = self._file(rows, int(index.max(initial=-1)) + 1, value)
        for start, stop in _spans(rows, file.tail[0]):
            low, high = offsets[start], offsets[stop]
            dense = np.zeros((stop - start, file.tail[0]), np.float32)
            row = np.repeat(np.arange(stop - start), np.diff(offsets[start : stop + 1]))
            dense[row, index[low:high]] = value[low:high]
            file.append(dense)
        self.num_rows += rows

    def rows(self, numbers: Array) -> Array:
        """Rows by number, float32 [len(numbers), num_features]; no rows can be added afterwards."""
        if len(self._mapped) < len(self._files):
            self._mapped.append(self._files[-1].mapped())
        found = np.zeros((numbers.shape[0], self.width), np.float32)
        where = np.searchsorted(self._starts, numbers, side="right") - 1
        for file in np.unique(where).tolist():
            mine, part = where == file, self._mapped[file]
            width = min(self.width, part.shape[1])
            found[mine, :width] = part[numbers[mine] - self._starts[file], :width]
        return found[:, self.skip :]

    def chunks(self, numbers: Array, step: int | None = None) -> Iterator[Array]:
        """Rows by number, in chunks of ``step``, by default of a moderate size in memory."""
        for start, stop in _spans(numbers.shape[0], self.width, step):
            yield self.rows(numbers[start:stop])

    def check_filled(self, first_index: int) -> None:
        """Raise if the table would be large and nearly empty, because a feature index is far too high."""
        cells = self.num_rows * self.num_features
        if cells * 4 > MAX_BYTES_IF_EMPTY and cells > MAX_EMPTINESS * self.num_values:
            table = f"a table of {cells * 4 / 1e9:,.1f} GB for {self.num_values:,} values"
            fix = f"number features consecutively from {first_index}, or lower max_index to locate a wrong index"
            raise DataError(f"feature {self.num_features - 1 + first_index:,} would require {table}", fix)

    def check_space(self, rows: int, width: int, bytes_each: int = 4) -> None:
        """Raise if the rows do not fit on the disk."""
        needed, free = rows * width * bytes_each, shutil.disk_usage(self.folder).free
        if needed > free:
            what = f"{rows:,} rows of {width:,} features need {needed / 1e9:,.1f} GB, and {free / 1e9:,.1f} GB are free"
            raise DataError(what, f"free disk space, or check the number of features, {width:,}")

    def _file(self, rows: int, width: int, values: Array) -> ScratchArray:
        """The file for rows of this width; counts their values."""
        self.num_missing += int(np.isnan(values).sum())
        self.num_values += values.size
        self.width = max(self.width, width)
        if not self._files or width > self._files[-1].tail[0]:
            if self._files:
                self._mapped.append(self._files[-1].mapped())
                width = max(width, int(self._files[-1].tail[0] * _GROWTH))
            self._starts.append(self.num_rows)
            self._files.append(ScratchArray(self.folder / f"features-{len(self._files)}", np.float32, (width,)))
        self.check_space(rows, self._files[-1].tail[0])
        return self._files[-1]


def _spans(rows: int, width: int, step: int | None = None) -> Iterator[tuple[int, int]]:
    step = step or max(1, CHUNK_BYTES // (4 * max(1, width)))
    return ((start, min(start + step, rows)) for start in range(0, rows, step))
