"""Columns of a table in files, read and written in slices: a table may exceed memory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from songrank.core.columns import Array


class DiskColumn:
    """One column in a file. A slice is read into memory; nothing is mapped, so that memory stays bounded.

    >>> import tempfile
    >>> table = DiskTable(Path(tempfile.mkdtemp()), {"item": np.int32})
    >>> table.append({"item": np.array([7, 8])})
    >>> table.append({"item": np.array([9])})
    >>> column = table.column("item")
    >>> column.shape, column[1:].tolist(), column[-1]
    ((3,), [8, 9], 9)
    """

    def __init__(self, path: Path, dtype: Any, rows: int) -> None:
        self.path, self.dtype, self.shape = path, np.dtype(dtype), (rows,)

    def __len__(self) -> int:
        return self.shape[0]

    @overload
    def __getitem__(self, rows: slice) -> Array: ...
    @overload
    def __getitem__(self, rows: int) -> Any: ...
    def __getitem__(self, rows: int | slice) -> Any:
        """A slice as an array, or one value."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            count = max(0, stop - start)
            return np.fromfile(self.path, self.dtype, count, offset=start * self.dtype.itemsize)[::step]
        number = range(len(self))[rows]
        return self[number : number + 1][0].item()


class DiskTable:
    """Columns of equal length, one file each in ``folder``; rows are appended, and replaced or removed in place."""

    def __init__(self, folder: Path, dtypes: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.rows = folder, 0
        self.dtypes = {name: np.dtype(dtype) for name, dtype in dtypes.items()}
        for name in self.dtypes:
            self._path(name).write_bytes(b"")

    def append(self, columns: Mapping[str, Array]) -> None:
        """Append rows."""
        self.write(self.rows, columns)

    def write(self, at: int, columns: Mapping[str, Array]) -> None:
        """Write rows from row ``at``, which is at most the number of rows."""
        sizes = {columns[name].shape[0] for name in self.dtypes}
        if len(sizes) != 1 or at > self.rows:
            raise ValueError(f"columns of {sorted(sizes)} rows at row {at} of {self.rows}; expected equal lengths")
        for name, dtype in self.dtypes.items():
            with self._path(name).open("rb+") as file:
                file.seek(at * dtype.itemsize)
                file.write(np.ascontiguousarray(columns[name], dtype).view(np.uint8).data)
        self.rows = max(self.rows, at + sizes.pop())

    def truncate(self, rows: int) -> None:
        """Keep the first rows only."""
        for name, dtype in self.dtypes.items():
            with self._path(name).open("rb+") as file:
                file.truncate(rows * dtype.itemsize)
        self.rows = rows

    def read(self, start: int, stop: int, names: Sequence[str] | None = None) -> dict[str, Array]:
        """Rows from ``start`` to ``stop`` of these columns, by default of all."""
        return {name: self.column(name)[start:stop] for name in names or self.dtypes}

    def column(self, name: str) -> DiskColumn:
        """One column with its present rows."""
        return DiskColumn(self._path(name), self.dtypes[name], self.rows)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.bin"
