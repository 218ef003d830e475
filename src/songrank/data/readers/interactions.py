"""Interaction logs: CSV, TSV and Parquet files, or a DataFrame; in one piece or with splits."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.core.errors import DataError
from songrank.core.memory import LEAST_MEMORY, free_memory
from songrank.data.content import Content
from songrank.data.dataset import SPLITS
from songrank.data.features.attach import attach_features
from songrank.data.features.table import EntityTable
from songrank.data.preparation.interaction_log import (
    Interactions,
    check_left,
    check_relevant,
    relevant_rows,
    to_catalogue,
)
from songrank.data.preparation.large_catalogue import large_catalogue
from songrank.data.preparation.log_sorting import INSTALL, LogSorter, need_duckdb
from songrank.data.preparation_options import ColumnOptions
from songrank.data.readers.split_column import read_splits
from songrank.io.source import Job, Source, check_one_kind, find_sources, reading
from songrank.io.tables import typed_columns
from songrank.io.tables.id_columns import IdColumn
from songrank.io.tables.input_table import Block, InputTable
from songrank.io.tables.polars_frames import find_column, need_column, no_column, parquet_rows

USER_NAMES = ("user", "user_id", "uid", "query", "query_id", "customer", "customer_id", "visitor_id", "session_id")
ITEM_NAMES = ("item", "item_id", "iid", "movie_id", "movie", "product_id", "product", "article_id", "asin", "book_id")
_LABEL = ("rating", "label", "score", "relevance", "stars", "overall")
_TIME = ("timestamp", "time", "date", "datetime", "ts", "event_time", "unix_review_time", "created_at", "when")
_TIME_ENDINGS = ("_at", "_time", "_date", "_timestamp")
_REQUIRED = ("user", "item")
_FILES = ["*.parquet", "*.csv", "*.tsv", "*.txt", "*.dat", "*.inter"]

_BYTES_PER_ROW = 77  # peak memory of a preparation in memory
_BYTES_PER_BYTE = 3  # the same for text, of about 25 bytes per row
_PACKED = 5  # text is at most about this many times larger than its compressed file

_Source = tuple[Any, str | None]
"""A file or a table, and its split if options name a file per split."""


@dataclass(frozen=True)
class InteractionColumns:
    """Names of columns by role."""

    query: str
    item: str
    label: str | None
    time: str | None
    split: str | None = None

    @classmethod
    def find(
        cls, columns: list[str], options: ColumnOptions, file: str, named_by: Sequence[str | None] = (None, None)
    ) -> "InteractionColumns":
        """Columns from options or by usual names; ``named_by``: names of the options for user and item in errors."""
        user = find_column(options.user_column, USER_NAMES, columns, "user", file)
        item = find_column(options.item_column, ITEM_NAMES, columns, "item", file)
        if user is None and item is None:
            both = " and ".join(named or f"--{what}-column" for named, what in zip(named_by, _REQUIRED, strict=True))
            raise no_column(columns, " and the ".join(_REQUIRED), file, f"pass {both}")
        names = cls(
            need_column(options.user_column, USER_NAMES, columns, "user", file, named_by[0]),
            need_column(options.item_column, ITEM_NAMES, columns, "item", file, named_by[1]),
            find_column(options.label_column, _LABEL, columns, "label", file),
            find_column(options.time_column, (*_TIME, *_only_time(columns)), columns, "time", file),
            options.split_column and need_column(options.split_column, ("split",), columns, "split", file),
        )
        if len(set(names.all)) < len(names.all):
            raise DataError(f"columns {', '.join(names.all)} are not distinct", "name different columns", file=file)
        return names

    @property
    def all(self) -> list[str]:
        """Names of all columns to read."""
        columns = (self.query, self.item, self.label, self.time, self.split)
        return [name for name in columns if name is not None]

    @property
    def called(self) -> dict[str, str | None]:
        """Names by role for ``dataset.json``."""
        return {role: name for role, name in asdict(self).items() if role != "split" or name is not None}


def _only_time(columns: list[str]) -> list[str]:
    """The column that ends like a time, such as ``ordered_at``, if there is exactly one."""
    found = [name.lower() for name in columns if name.lower().endswith(_TIME_ENDINGS)]
    return found if len(found) == 1 else []


class RowReader:
    """Reads validated columns of blocks; all times are of one kind."""

    def __init__(self, names: InteractionColumns) -> None:
        self.names = names
        self._kind: str | None = None  # kind of times in the first block
        self._whole_beyond_floats = self._fractions = False

    def read(self, block: Block) -> tuple[pl.Series, pl.Series, Array | None, Array | None]:
        """Users, items, labels and times of a block; the error names the first invalid row and column."""
        names, label, time = self.names, None, None
        query = block.read(typed_columns.read_ids, names.query, typed_columns.ID_EXPECTED)
        item = block.read(typed_columns.read_ids, names.item, typed_columns.ID_EXPECTED)
        if names.label is not None:
            label = block.read(typed_columns.read_labels, names.label, typed_columns.LABEL_EXPECTED)
        if names.time is not None:
            kind, time = block.read(typed_columns.read_times, names.time, typed_columns.TIME_EXPECTED)
            if self._kind not in (None, kind):
                what = f"{names.time} contains {self._kind} and {kind}"
                raise DataError(what, "expected times of one kind", file=block.file)
            self._kind = kind
            self._fractions |= time.dtype.kind == "f"
            self._whole_beyond_floats |= time.dtype.kind == "i" and bool((np.abs(time) > 2**53).any())
        return query, item, label, time

    def check_times(self) -> None:
        """Raise if whole numbers would be rounded because other times are fractions."""
        if self._fractions and self._whole_beyond_floats:
            raise DataError(f"{self.names.time} contains fractions and numbers above 2^53", "expected whole numbers")


class Collector:
    """Collects blocks of rows in memory."""

    def __init__(self, names: InteractionColumns) -> None:
        self.names, self._reader = names, RowReader(names)
        self._query, self._item = IdColumn(), IdColumn()
        self._label: list[Array] = []
        self._time: list[Array] = []
        self._split: list[Array] = []

    def add(self, block: Block, split: str | None = None) -> None:
        """Append a block, of this ``split`` if given."""
        query, item, label, time = self._reader.read(block)
        if label is not None:
            self._label.append(label)
        if time is not None:
            self._time.append(time)
        if split is not None:
            self._split.append(np.full(len(query), SPLITS.index(split), np.uint8))
        elif self.names.split is not None:
            self._split.append(read_splits(block, self.names.split))
        self._query.add(query)
        self._item.add(item)

    def finish(self) -> Interactions:
        """All interactions."""
        self._reader.check_times()
        label = np.concatenate(self._label) if self._label else None
        time = np.concatenate(self._time) if self._time else None
        split = np.concatenate(self._split) if self._split else None
        return Interactions(*self._query.finish(), *self._item.finish(), label, time, split)


def interactions(source: Any, options: ColumnOptions, job: Job, scratch: Path) -> Content:
    """Read a file, several files of one type in a directory or archive, a table in memory, or a file per split."""
    sources = _sources(source, options)
    memory = job.memory_limit or _automatic_limit([one for one, _ in sources], options, job)
    if memory is not None:
        return _large(sources, options, job, scratch, memory)
    collector: Collector | None = None
    for names, block, split in _blocks(sources, options, job):
        collector = collector or Collector(names)
        if block is not None:
            collector.add(block, split)
    assert collector is not None  # a source has at least one file
    content = to_catalogue(collector.finish(), options, job, options.training_fraction)
    content.extra["called"] = collector.names.called
    _add_features(content, collector.names, options, job)
    return content


def _add_features(content: Content, names: InteractionColumns, options: ColumnOptions, job: Job) -> None:
    """Add the features of the tables of items and users, if given."""
    if not options.tables:
        return
    usual = {"item": (names.item, *ITEM_NAMES), "user": (names.query, *USER_NAMES)}
    tables = {word: EntityTable(table, word, usual[word], job) for word, table in options.tables.items()}
    attach_features(content, tables, {"item": options.item_columns or {}, "user": options.user_columns or {}})


def _large(sources: list[_Source], options: ColumnOptions, job: Job, scratch: Path, memory: int) -> Content:
    """Sort on disk, within about ``memory`` bytes; the result is the same."""
    if options.split == "given":
        raise DataError("memory_limit does not support split given", "omit memory_limit, or use another split")
    if options.cold_items or options.tables:
        what = "cold_items" if options.cold_items else f"{next(iter(options.tables))}s"
        raise DataError(f"memory_limit does not support {what}", "omit one of the two")
    need_duckdb()
    sorter, reader = LogSorter(scratch, memory, job), None
    for names, block, _ in _blocks(sources, options, job):
        reader = reader or RowReader(names)
        if block is not None:
            query, item, label, time = reader.read(block)
            sorter.add(query, item, label, time, relevant_rows(label, len(query), options, job))
    assert reader is not None  # a source has at least one file
    reader.check_times()
    check_relevant(sorter.rows, sorter.relevant, options)
    check_left(sorter.rows)
    content = large_catalogue(sorter.finish(), options, job, scratch, memory)
    content.extra["called"] = reader.names.called
    return content


def _blocks(
    sources: list[_Source], options: ColumnOptions, job: Job
) -> Iterator[tuple[InteractionColumns, Block | None, str | None]]:
    """The columns of each table, first without a block, then with each block and its split."""
    first: InteractionColumns | None = None
    for one, split in sources:
        table = InputTable(one, job, options.separator)
        names = InteractionColumns.find(table.columns, options, table.name)
        first = first or names
        if names != first:
            fix = "expected files with equal columns"
            raise DataError("columns differ from the previous file", fix, file=table.name)
        yield names, None, split
        for block in table.blocks(names.all, least=None):  # some writers create empty parts
            yield names, block, split


def _automatic_limit(files: list[Any], options: ColumnOptions, job: Job) -> int | None:
    """A memory limit if preparation in memory needs more than half of the free memory; None otherwise."""
    free, needed = free_memory(), sum(_bytes_in_memory(file) for file in files if isinstance(file, Source))
    if free is None or needed <= free // 2:
        return None
    what = f"preparation in memory needs about {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free"
    if options.split == "given" or options.cold_items or options.tables:
        job.note(f"{what}; split given, cold_items and tables of features are not supported on disk")
        return None
    if find_spec("duckdb") is None:
        job.note(f"{what}; to sort on disk instead: {INSTALL}")
        return None
    limit = max(LEAST_MEMORY, free // 2)
    job.note(f"{what}; sorting on disk within {limit / 2**30:.1f} GiB (see --memory-limit)")
    return limit


def _bytes_in_memory(source: Source) -> int:
    """An estimate of the peak memory of a preparation in memory."""
    with reading(source.name):
        if source.file_name.lower().endswith(".parquet") and source.member is None:
            return _BYTES_PER_ROW * parquet_rows(source)
        return _BYTES_PER_BYTE * (source.size() or _PACKED * source.path.stat().st_size)


def _sources(source: Any, options: ColumnOptions) -> list[_Source]:
    """Files or tables, each with its split if options name a file per split."""
    if options.files_by_split:
        return [(one, name) for name, file in options.files_by_split.items() for one in _files(Path(file), options)]
    return [(one, None) for one in (_files(source, options) if isinstance(source, Path) else [source])]


def _files(path: Path, options: ColumnOptions) -> list[Source]:
    files = find_sources(path, _FILES, "CSV, TSV or Parquet file")
    check_one_kind(files, path)
    return [replace(file, encoding=options.encoding) for file in files]
