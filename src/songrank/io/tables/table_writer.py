"""Atomic writing of tables in blocks of rows."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO

import polars as pl

from songrank.core.errors import DataError, first_line, shown
from songrank.io.files import NEW, WINDOWS, new_parents, not_written
from songrank.io.locks import LOCK, alone

SUFFIXES = (".csv", ".parquet")
_PART_ROWS = 2**18


def check_output(path: Path, *, overwrite: bool, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Raise unless the file can be created: known suffix, and no existing file unless ``overwrite``."""
    if path.suffix not in suffixes:
        raise DataError(f"unknown suffix {path.suffix!r}", f"expected {' or '.join(suffixes)}", file=str(path))
    with writing(path):
        if path.is_dir():
            raise DataError("is a directory", "expected a file", file=str(path))
        if path.exists() and not overwrite:
            raise DataError("already exists", "pass --overwrite to replace it", file=str(path))


class TableWriter:
    """Writes rows of one schema; Parquet is written in parts that become row groups."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder, self.rows = path, folder, 0
        self._whole = folder / f"whole{path.suffix}"
        self._stream: IO[bytes] | None = None
        self._parts = 0
        self._waiting: list[pl.DataFrame] = []

    def write(self, rows: pl.DataFrame) -> None:
        """Write rows; the first call sets the columns, even without rows."""
        self.check(rows.schema)
        with writing(self.path):
            self.rows += rows.height
            if self.path.suffix == ".csv":
                header = self._stream is None
                self._stream = self._stream or self._whole.open("wb")
                rows.write_csv(self._stream, include_header=header)
                return
            self._waiting.append(rows)
            if sum(frame.height for frame in self._waiting) >= _PART_ROWS:
                self._write_part()

    def check(self, columns: Mapping[str, pl.DataType]) -> None:
        """Raise if the file format does not support the type of a column."""
        for name, kind in columns.items():
            if self.path.suffix == ".csv" and (kind.is_nested() or kind in (pl.Binary, pl.Object)):
                what = f"column {shown(name)} is of type {kind}, which CSV does not support"
                raise DataError(what, "write a .parquet file, or remove the column", file=str(self.path))

    def finish(self) -> Path:
        """Complete the file and flush it to disk."""
        with writing(self.path):
            if self._stream is None:
                if self._waiting:
                    self._write_part()
                parts = [self.folder / f"part-{number}.parquet" for number in range(self._parts)]
                pl.scan_parquet(parts, glob=False).sink_parquet(self._whole, row_group_size=_PART_ROWS)
                self._stream = self._whole.open("rb+")
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()
        return self._whole

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()

    def _write_part(self) -> None:
        pl.concat(self._waiting).write_parquet(self.folder / f"part-{self._parts}.parquet")
        self._parts, self._waiting = self._parts + 1, []


@contextmanager
def table_writer(path: Path, *, overwrite: bool = False) -> Iterator[TableWriter]:
    """Write a CSV or Parquet file in blocks of rows; the file appears on success only."""
    check_output(path, overwrite=overwrite)
    target = Path(os.path.realpath(path))
    folder = target.parent / f"{NEW}{target.name}"
    with new_parents(target), ExitStack() as last:
        if WINDOWS:  # open lock files cannot be removed
            last.callback(shutil.rmtree, folder, ignore_errors=True)
        with writing(path):
            folder.mkdir(parents=True, exist_ok=True)
            if folder.is_symlink():
                raise DataError("is a symbolic link", "remove it", file=str(folder))
        with alone(folder, "written"):
            try:
                with writing(path):
                    for left in folder.iterdir():  # from a killed process
                        if left.name != LOCK:
                            left.unlink()
                with closing(TableWriter(path, folder)) as writer:
                    yield writer
                    whole = writer.finish()
                    check_output(path, overwrite=overwrite)
                    with writing(path):
                        whole.replace(target)
            finally:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert errors of the disk or the format to a ``DataError``."""
    try:
        yield
    except OSError as error:
        raise not_written(path, error) from None
    except pl.exceptions.PolarsError as error:
        what = f"cannot be written ({first_line(error)})"
        raise DataError(what, "change or remove these columns", file=str(path)) from None
