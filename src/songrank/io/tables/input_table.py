"""CSV, TSV and Parquet files, or tables in memory, read in blocks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.io.source import Job, Source
from songrank.io.tables.delimited import DelimitedFile
from songrank.io.tables.id_columns import WHOLE
from songrank.io.tables.polars_frames import (
    TABLE,
    column_names,
    find_column,
    no_column,
    read_parquet,
    slices,
    to_polars,
)
from songrank.io.tables.typed_columns import ID_EXPECTED, Where, read_column, read_ids

T = TypeVar("T")


@dataclass(frozen=True)
class Block:
    """A block of rows; ``line`` maps rows to lines of a text file, ``first`` is the first row otherwise."""

    frame: pl.DataFrame
    file: str
    line: Where | None = None
    first: int = 0

    def read(self, reader: Callable[[pl.Series], T | None], column: str, fix: str) -> T:
        """Convert a column with ``reader``; the error names the first invalid row."""
        return read_column(reader, self.frame[column], fix, self.file, self.line, self.first)


class InputTable:
    r"""A CSV, TSV or Parquet file, or a table in memory; ``columns`` are the column names.

    ``separator`` of a text file is detected in the first line by default.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "users.csv"
    >>> _ = file.write_text("user,age\n7,31\n9,40\n")
    >>> table = InputTable(file, Job())
    >>> table.columns, [block.frame["user"].to_list() for block in table.blocks(["user"])]
    (['user', 'age'], [['7', '9']])
    """

    def __init__(self, table: Any, job: Job, separator: str | None = None) -> None:
        source = Source(table) if isinstance(table, Path) else table
        self._text: DelimitedFile | None = None
        self.name = source.name if isinstance(source, Source) else TABLE
        if isinstance(source, Source) and not source.file_name.lower().endswith(".parquet"):
            self._text = DelimitedFile(source, separator, job)
            self.columns = self._text.columns
            return
        self._table = read_parquet(source, job) if isinstance(source, Source) else to_polars(source).lazy()
        self.columns = column_names(self._table, self.name)

    @property
    def is_text(self) -> bool:
        """Whether the table is a text file with string columns."""
        return self._text is not None

    def blocks(self, columns: Sequence[str], least: str | None = "expected at least one") -> Iterator[Block]:
        """Rows of these columns in blocks that fit in memory; raises with remedy ``least`` if there are no rows."""
        if self._text is not None:
            for frame, line in self._text.frames(columns):
                yield Block(frame, self.name, line)
            return
        rows = 0
        for frame in slices(self._table, columns, self.name):
            yield Block(frame, self.name, None, rows)
            rows += frame.height
        if not rows and least is not None:
            raise DataError("has no rows", least, file=self.name)


def read_id_column(
    path: Path, given: str | None, usual: Sequence[str], what: str, fix: str, known: Ids, job: Job
) -> tuple[str | None, pl.Series]:
    """The name of a column of ids, and the ids: integers if all are integers, else strings.

    The column is ``given``, detected by ``usual`` names, or the only one. A text file with a single column needs no
    header: its first line is an id if it is an integer or one of the ``known`` ids.
    """
    table = InputTable(path, job)
    alone = len(table.columns) == 1
    name = find_column(given or "auto", usual, table.columns, what, table.name)
    if name is None:
        name = table.columns[0] if alone else None
    if name is None:
        raise no_column(table.columns, what, table.name, fix)
    parts = [block.read(read_ids, name, ID_EXPECTED) for block in table.blocks([name])]
    if table.is_text and alone and given is None and (are_whole(pl.Series([name])) or int(known.find([name])[0]) >= 0):
        return None, as_ids([pl.Series([name], dtype=pl.String), *parts])
    return name, as_ids(parts)


def as_ids(parts: Sequence[pl.Series]) -> pl.Series:
    """Concatenate blocks of ids: integers if all are canonical integers, else strings.

    >>> as_ids([pl.Series(["7", "-12"])]).to_list(), as_ids([pl.Series(["7", "007"])]).to_list()
    ([7, -12], ['7', '007'])
    """
    kind = pl.Int64 if all(map(are_whole, parts)) else pl.String
    return pl.concat([part.cast(kind).alias("id") for part in parts])


def are_whole(ids: pl.Series) -> bool:
    """Whether all ids are 64-bit integers, or their canonical strings.

    >>> are_whole(pl.Series(["7", "-12"])), are_whole(pl.Series(["7", "007"])), are_whole(pl.Series([str(2**63)]))
    (True, False, False)
    """
    if ids.dtype != pl.String:
        return True
    return not ids.cast(pl.Int64, strict=False).null_count() and bool(ids.str.contains(f"^{WHOLE}$").all())


def id_column(ids: Ids) -> pl.Series:
    """All ids by index: int64 or strings."""
    if ids.kind == "integer":
        return pl.Series(ids.arrays("id")["id"], dtype=pl.Int64)
    return pl.Series(list(ids), dtype=pl.String)
