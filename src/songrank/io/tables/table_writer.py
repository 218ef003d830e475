"""Atomic writing of tables in blocks of rows."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import polars as pl

from songrank.core.errors import DataError, first_line, shown
from songrank.core.processes import ALONE, Processes
from songrank.io.files import NEW, WINDOWS, new_parents, not_written
from songrank.io.locks import LOCK, alone
from songrank.io.staging import replace_directory

SUFFIXES = (".csv", ".parquet")
_PART = re.compile(r"part-[0-9]{5}-of-[0-9]{5}\.parquet")
_PART_ROWS = 2**18
_COPY_BYTES = 2**22
_TEXTS = (pl.String, pl.Categorical, pl.Enum)
_FORMULA = r"^[=+@\-\t\r]"
"""The beginning of a text that spreadsheets read as a formula."""


def check_output(path: Path, *, overwrite: bool, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Raise unless the file can be created: known suffix, and no existing file unless ``overwrite``."""
    if path.suffix not in suffixes:
        raise DataError(f"unknown suffix {path.suffix!r}", f"expected {' or '.join(suffixes)}", file=str(path))
    with writing(path):
        if path.is_dir():
            raise DataError("is a directory", "expected a file", file=str(path))
        if path.exists() and not overwrite:
            raise DataError("already exists", "pass --overwrite to replace it", file=str(path))


def check_table_output(path: Path, *, overwrite: bool) -> None:
    """:func:`check_output`, or, for a path without suffix, for a directory of Parquet files."""
    if path.suffix:
        check_output(path, overwrite=overwrite)
        return
    with writing(path):
        if path.exists() and not path.is_dir():
            raise DataError("is a file", "expected a new directory, or a suffix .csv or .parquet", file=str(path))
        files = sorted(file.name for file in path.iterdir()) if path.exists() else []
        foreign = [name for name in files if not _PART.fullmatch(name)]
        if foreign:
            raise DataError(f"contains other files ({foreign[0]})", "choose another directory", file=str(path))
        if files and not overwrite:
            raise DataError("already exists", "pass --overwrite to replace it", file=str(path))


class TableWriter:
    """Writes rows of one schema; Parquet is written in pieces that become row groups.

    Args:
        path: the output, for messages; its suffix selects the format.
        folder: an empty directory for temporary files.
        header: whether a CSV file begins with the names of the columns.
        escape: put an apostrophe before texts that a spreadsheet would read as a formula.
    """

    def __init__(self, path: Path, folder: Path, *, header: bool = True, escape: bool = False) -> None:
        self.path, self.folder, self.rows, self._escape = path, folder, 0, escape
        self._header, self._csv = header, path.suffix == ".csv"
        self._stream: IO[bytes] | None = None
        self._pieces = 0
        self._waiting: list[pl.DataFrame] = []

    def write(self, rows: pl.DataFrame) -> None:
        """Write rows; the first call sets the columns, even without rows."""
        self.check(rows.schema)
        with writing(self.path):
            rows = _escaped(rows) if self._escape else rows
            self.rows += rows.height
            if self._csv:
                header = self._stream is None and self._header
                self._stream = self._stream or (self.folder / "rows.csv").open("wb")
                rows.write_csv(self._stream, include_header=header)
                return
            self._waiting.append(rows)
            if sum(frame.height for frame in self._waiting) >= _PART_ROWS:
                self._write_piece()

    def check(self, columns: Mapping[str, pl.DataType]) -> None:
        """Raise if the file format does not support the type of a column."""
        for name, kind in columns.items():
            if self._csv and (kind.is_nested() or kind in (pl.Binary, pl.Object)):
                what = f"column {shown(name)} is of type {kind}, which CSV does not support"
                raise DataError(what, "write a .parquet file, or remove the column", file=str(self.path))

    def finish(self) -> None:
        """Write the remaining rows."""
        with writing(self.path):
            if self._waiting:
                self._write_piece()
            self.close()

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()

    def _write_piece(self) -> None:
        pl.concat(self._waiting).write_parquet(self.folder / f"rows-{self._pieces:06}.parquet")
        self._pieces, self._waiting = self._pieces + 1, []


def _escaped(rows: pl.DataFrame) -> pl.DataFrame:
    """An apostrophe before each text, and each name of a column, that begins like a formula.

    >>> _escaped(pl.DataFrame({"item": ["=1+1", "a=b", None]}))["item"].to_list()
    ["'=1+1", 'a=b', None]
    """
    texts = [pl.col(name).cast(pl.String) for name, kind in rows.schema.items() if kind in _TEXTS]
    rows = rows.with_columns(
        pl.when(text.str.contains(_FORMULA)).then(pl.lit("'") + text).otherwise(text).name.keep() for text in texts
    )
    return rows.rename(lambda name: f"'{name}" if re.match(_FORMULA, name) else name)


def check_escape(path: Path, *, escape: bool) -> None:
    """Raise if formulas are to be escaped in an output that is not CSV."""
    if escape and path.suffix != ".csv":
        raise DataError("is not a CSV file", "leave out --escape-formulas", file=str(path))


@contextmanager
def table_writer(
    path: Path, *, overwrite: bool = False, escape: bool = False, processes: Processes = ALONE
) -> Iterator[TableWriter]:
    """Write a CSV or Parquet file in blocks of rows; the file appears on success only.

    A path without suffix is a directory of Parquet files, one per process. Several ``processes`` write consecutive
    rows, at least one block each, which may have no rows; the first one joins them. If one fails, nothing is written.
    ``escape`` is that of :class:`TableWriter`, for CSV files.
    """
    target, check = Path(os.path.realpath(path)), partial(check_table_output, path, overwrite=overwrite)
    folder = target.parent / f"{NEW}{target.name}"
    with ExitStack() as last:
        with processes.agreed():
            check_escape(path, escape=escape)
            check()
            if processes.is_first:
                last.enter_context(_staging(path, target, folder))
        with processes.agreed(), writing(path):
            if not folder.is_dir():
                fix = "choose a directory that all machines share"
                raise DataError("cannot be written by all processes", fix, file=str(path))
            own = folder / f"process-{processes.rank:05}"
            own.mkdir()
        with closing(TableWriter(path, own, header=processes.is_first, escape=escape)) as writer:
            with processes.agreed():
                yield writer
                writer.finish()
                if not path.suffix:
                    _join([own], folder / f"part-{processes.rank:05}-of-{processes.world:05}.parquet", path)
            with processes.agreed():
                if processes.is_first:
                    check()
                    _commit(path, target, folder)


@contextmanager
def _staging(path: Path, target: Path, folder: Path) -> Iterator[None]:
    """Create the directory of temporary files, lock it, and remove it at the end."""
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
                        if left.is_dir() and not left.is_symlink():
                            shutil.rmtree(left)
                        elif left.name != LOCK:
                            left.unlink()
                yield
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def _commit(path: Path, target: Path, folder: Path) -> None:
    """Rename the complete output to its place."""
    with writing(path):
        if path.suffix:
            whole = folder / f"whole{path.suffix}"
            _join(sorted(folder.glob("process-*")), whole, path)
            whole.replace(target)
            return
        whole = folder / "whole"
        whole.mkdir()
        for part in sorted(folder.glob("part-*.parquet")):
            part.replace(whole / part.name)
        replace_directory(whole, target)


def _join(folders: Sequence[Path], whole: Path, path: Path) -> None:
    """Join the rows in the folders of several writers, and flush them to disk."""
    with writing(path):
        pieces = [piece for folder in folders for piece in sorted(folder.glob(f"rows*{whole.suffix}"))]
        if whole.suffix == ".csv":
            pieces[0].replace(whole)
            with whole.open("ab") as stream:
                for piece in pieces[1:]:
                    with piece.open("rb") as rows:
                        shutil.copyfileobj(rows, stream, _COPY_BYTES)
        else:
            pl.scan_parquet(pieces, glob=False).sink_parquet(whole, row_group_size=_PART_ROWS)
        with whole.open("rb+") as stream:
            os.fsync(stream.fileno())


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
