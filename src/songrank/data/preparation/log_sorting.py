"""Sorting of interaction logs that exceed memory: rows go to files, and DuckDB numbers ids and sorts rows on disk."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.core.errors import DataError, first_line
from songrank.core.ids import Ids
from songrank.io.source import Job
from songrank.io.tables.id_columns import ids_in_order
from songrank.io.tables.input_table import are_whole
from songrank.io.tables.polars_frames import slices

INSTALL = "pip install 'songrank[large]'"
BASE_MEMORY = 512 << 20
"""Memory of the process besides the data: Python, torch, polars and a block of the source."""
_THREAD_MEMORY = 160 << 20  # DuckDB needs about 125 MB per thread
_LOAD = "SELECT {columns} FROM read_parquet([{files}])"
_NUMBER = (
    "CREATE TABLE {name}_ids AS SELECT id, CAST(row_number() OVER (ORDER BY id) - 1 AS INTEGER) AS number "
    "FROM (SELECT DISTINCT {name} AS id FROM ({rows}))"
)
_SORT = (
    "SELECT query_ids.number AS query, item_ids.number AS item{more} FROM ({rows}) AS rows "
    "JOIN query_ids ON rows.query = query_ids.id JOIN item_ids ON rows.item = item_ids.id "
    "ORDER BY query_ids.number, {time}rows.row"
)
_SAVE = "COPY ({rows}) TO {file} (FORMAT parquet, COMPRESSION lz4)"


@dataclass
class SortedLog:
    """A log in Parquet files: relevant pairs by query, time and row, and all others, ``met``, by query and row."""

    rows: Path
    met: Path | None
    query_ids: Ids
    item_ids: Ids


def read_blocks(file: Path) -> Iterator[dict[str, Array]]:
    """The columns ``query``, ``item`` and, of relevant pairs, ``label`` and ``time`` if the log has them."""
    table = pl.scan_parquet(file, glob=False)
    for frame in slices(table, table.collect_schema().names(), str(file)):
        yield {name: frame[name].to_numpy() for name in frame.columns}


class LogSorter:
    """Collects validated rows in files of ``folder``, then sorts them within about ``memory`` bytes."""

    def __init__(self, folder: Path, memory: int, job: Job) -> None:
        self.folder, self.memory, self.job = folder, memory, job
        self.rows = self.relevant = 0
        self._parts: dict[bool, list[_Part]] = {True: [], False: []}
        (folder / "parts").mkdir(parents=True)

    def add(self, query: pl.Series, item: pl.Series, label: Array | None, time: Array | None, relevant: Array) -> None:
        """Append rows with integers or strings as ids; ``relevant`` masks relevant pairs."""
        known = {name: column for name, column in (("label", label), ("time", time)) if column is not None}
        frame = pl.DataFrame({"query": _narrowed(query), "item": _narrowed(item), **known})
        frame = frame.with_columns(pl.int_range(self.rows, self.rows + frame.height, eager=True).alias("row"))
        self.rows += frame.height
        self.relevant += int(np.count_nonzero(relevant))
        kept = pl.Series(relevant)
        for is_relevant, part in ((True, frame.filter(kept)), (False, frame.filter(~kept))):
            if part.height:
                file = self.folder / "parts" / f"{len(self._parts[is_relevant])}-{is_relevant}.parquet"
                part.write_parquet(file, compression="lz4", statistics=False)
                self._parts[is_relevant].append(_Part(file, dict(part.schema)))

    def finish(self) -> SortedLog:
        """Number the ids and sort the rows; files of rows are removed."""
        with _database(self.folder, self.memory) as base:
            query, item = (self._number(base, name) for name in ("query", "item"))
            files = [self._sort(base, relevant) for relevant in (True, False)]
        return SortedLog(files[0] or self.folder / "none", files[1], query, item)

    def _number(self, base: Any, name: str) -> Ids:
        rows = " UNION ALL ".join(self._load(relevant, [name]) for relevant in (True, False) if self._parts[relevant])
        self._run(base, _NUMBER.format(name=name, rows=rows), f"numbering {name} ids")
        file = self.folder / f"{name}_ids.parquet"
        ordered = f"SELECT id FROM {name}_ids ORDER BY number"
        self._run(base, _SAVE.format(rows=ordered, file=_quoted(file)), f"writing {name} ids")
        ids = ids_in_order(frame["id"] for frame in slices(pl.scan_parquet(file, glob=False), ["id"], str(file)))
        file.unlink()
        return ids

    def _sort(self, base: Any, relevant: bool) -> Path | None:
        if not (parts := self._parts[relevant]):
            return None
        known = [name for name in ("label", "time") if relevant and name in parts[0].schema]
        time = "rows.time + 0, " if "time" in known else ""  # -0.0 + 0 is 0.0
        rows = self._load(relevant, ["query", "item", "row", *known])
        ordered = _SORT.format(more="".join(f", rows.{name} AS {name}" for name in known), rows=rows, time=time)
        file = self.folder / ("relevant.parquet" if relevant else "met.parquet")
        self._run(base, _SAVE.format(rows=ordered, file=_quoted(file)), "sorting" if relevant else "sorting other rows")
        for part in parts:
            part.file.unlink()
        return file

    def _load(self, relevant: bool, columns: list[str]) -> str:
        """A query for these columns of all parts, each in its widest type."""
        everything = [part for parts in self._parts.values() for part in parts]
        widest = {name: _widest(name, [part.schema for part in everything]) for name in columns}
        tables: dict[str, list[str]] = {}
        for part in self._parts[relevant]:
            chosen = ", ".join(f"CAST({name} AS {widest[name]}) AS {name}" for name in columns)
            types = str([part.schema[name] for name in columns])
            tables.setdefault(types, [chosen]).append(_quoted(part.file))
        return " UNION ALL ".join(_LOAD.format(columns=c, files=", ".join(files)) for c, *files in tables.values())

    def _run(self, base: Any, query: str, what: str) -> None:
        """Run a query in a thread, so that progress is reported and Ctrl-C stops it."""
        failed: list[BaseException] = []

        def work() -> None:
            try:
                base.execute(query)
            except BaseException as error:
                failed.append(error)

        self.job.report(what, 0, 100)
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.2)
                self.job.report(what, max(0, int(base.query_progress())), 100)
        except BaseException:
            base.interrupt()
            thread.join()
            raise
        if failed:
            raise _explained(failed[0], self.memory, self.folder)


@dataclass
class _Part:
    file: Path
    schema: dict[str, pl.DataType]


def need_duckdb() -> None:
    """Raise unless DuckDB is installed."""
    try:
        import duckdb  # noqa: F401
    except ImportError:
        raise DataError("memory_limit needs DuckDB, which is not installed", INSTALL) from None


@contextmanager
def _database(folder: Path, memory: int) -> Iterator[Any]:
    """A DuckDB database in ``folder``, which spills to it and never downloads an extension."""
    import duckdb

    room = memory - BASE_MEMORY
    settings = {
        "memory_limit": f"{room >> 20}MiB",
        "threads": max(1, min(os.cpu_count() or 1, room // _THREAD_MEMORY)),
        "temp_directory": str(folder / "spilled"),
        "preserve_insertion_order": True,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "enable_progress_bar": True,
        "enable_progress_bar_print": False,
    }
    base = duckdb.connect(str(folder / "ids.duckdb"))
    try:
        for name, value in settings.items():
            base.execute(f"SET {name} = {_quoted(value) if isinstance(value, str) else value}")
        yield base
    finally:
        base.close()


def _explained(error: BaseException, memory: int, folder: Path) -> BaseException:
    """DuckDB's error as one line with a remedy; other errors unchanged."""
    import duckdb

    if isinstance(error, duckdb.OutOfMemoryException):
        return DataError(f"sorting needs more than the memory limit of {memory >> 20:,} MiB", "raise memory_limit")
    if isinstance(error, duckdb.IOException):
        what, fix = f"cannot be written ({first_line(error)})", "free disk space or choose another directory"
        return DataError(what, fix, file=str(folder))
    return error


def _narrowed(ids: pl.Series) -> pl.Series:
    """Ids as integers if all are canonical integers."""
    return ids.cast(pl.Int64) if are_whole(ids) else ids


def _widest(name: str, schemas: list[dict[str, pl.DataType]]) -> str:
    kinds = {schema[name] for schema in schemas if name in schema}
    if name in ("query", "item"):
        return "VARCHAR" if pl.String in kinds else "BIGINT"
    if name == "label":
        return "FLOAT"
    return "DOUBLE" if pl.Float64 in kinds else "BIGINT"


def _quoted(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"
