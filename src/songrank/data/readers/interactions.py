"""Interactions in tables whose columns have names: CSV, TSV and Parquet files, or a DataFrame in memory."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.core.errors import DataError
from songrank.data.content import Content
from songrank.data.preparation.interaction_log import Interactions, to_catalogue
from songrank.data.preparation_options import ColumnOptions
from songrank.io.source import Job, Source, find_sources
from songrank.io.tables.id_columns import IdColumn
from songrank.io.tables.input_table import InputTable
from songrank.io.tables.polars_frames import find_column, need_column
from songrank.io.tables.times import TIME_EXPECTED, read_times
from songrank.io.tables.typed_columns import ID_EXPECTED, LABEL_EXPECTED, Where, read_column, read_ids, read_labels

USER_NAMES = ("user", "user_id", "uid", "query", "query_id", "customer", "customer_id", "visitor_id", "session_id")
ITEM_NAMES = ("item", "item_id", "iid", "movie_id", "movie", "product_id", "product", "article_id", "asin", "book_id")
_LABEL = ("rating", "label", "score", "relevance", "stars", "overall")
_TIME = ("timestamp", "time", "date", "datetime", "ts", "event_time", "unix_review_time", "created_at")
_FILES = ["*.parquet", "*.csv", "*.tsv", "*.txt", "*.dat", "*.inter"]


@dataclass(frozen=True)
class InteractionColumns:
    """Which column means what."""

    query: str
    item: str
    label: str | None
    time: str | None

    @classmethod
    def find(
        cls,
        columns: list[str],
        options: ColumnOptions,
        file: str,
        named_by: Sequence[str | None] = (None, None),
    ) -> "InteractionColumns":
        """As the options say, or by usual names; ``named_by``: what the caller's options for query and item are."""
        names = cls(
            need_column(options.query_column, USER_NAMES, columns, "query", file, named_by[0]),
            need_column(options.item_column, ITEM_NAMES, columns, "item", file, named_by[1]),
            find_column(options.label_column, _LABEL, columns, "label", file),
            find_column(options.time_column, _TIME, columns, "time", file),
        )
        if len(set(names.all)) < len(names.all):
            raise DataError(f"one column stands for two of {', '.join(names.all)}", "name different columns", file=file)
        return names

    @property
    def all(self) -> list[str]:
        """All that are there."""
        return [name for name in (self.query, self.item, self.label, self.time) if name is not None]


class Collector:
    """Puts blocks of rows together, each checked on its way in."""

    def __init__(self, names: InteractionColumns) -> None:
        self.names = names
        self._query, self._item = IdColumn(), IdColumn()
        self._label: list[Array] = []
        self._time: list[Array] = []
        self._kind: str | None = None  # of the times, in the first block

    def add(self, block: pl.DataFrame, file: str, line: Where | None = None, first: int = 0) -> None:
        """Take a block in, or say which row of which column cannot be; ``first`` is the number of its first row."""
        names, where = self.names, (file, line, first)
        query = read_column(read_ids, block[names.query], ID_EXPECTED, *where)
        item = read_column(read_ids, block[names.item], ID_EXPECTED, *where)
        if names.label is not None:
            self._label.append(read_column(read_labels, block[names.label], LABEL_EXPECTED, *where))
        if names.time is not None:
            kind, time = read_column(read_times, block[names.time], TIME_EXPECTED, *where)
            if self._kind not in (None, kind):
                raise DataError(f"{names.time} holds {self._kind} and {kind}", "expected times of one kind", file=file)
            self._kind = kind
            self._time.append(time)
        self._query.add(query)
        self._item.add(item)

    def finish(self) -> Interactions:
        """All rows."""
        query, query_ids = self._query.finish()
        item, item_ids = self._item.finish()
        label = np.concatenate(self._label) if self._label else None
        time = np.concatenate(self._time) if self._time else None
        if time is not None and time.dtype.kind == "f" and any(_too_large(part) for part in self._time):
            raise DataError(f"{self.names.time} holds fractions and numbers above 2^53", "expected whole numbers")
        return Interactions(query, query_ids, item, item_ids, label, time)


def _too_large(time: Array) -> bool:
    return time.dtype.kind == "i" and bool((np.abs(time) > 2**53).any())


def interactions(source: Any, options: ColumnOptions, job: Job, scratch: Path) -> Content:
    """A file, several of one kind in a folder or archive, or a table in memory."""
    sources = _files(source, options) if isinstance(source, Path) else [source]
    collector: Collector | None = None
    for table in (InputTable(one, job, options.separator) for one in sources):
        names = InteractionColumns.find(table.columns, options, table.name)
        collector = collector or Collector(names)
        if names != collector.names:
            raise DataError("has other columns than the file before it", "prepare files of one kind", file=table.name)
        for block in table.blocks(names.all, least=None):  # some writers leave parts without rows
            collector.add(block.frame, block.file, block.line, block.first)
    assert collector is not None  # a source has at least one file
    content = to_catalogue(collector.finish(), options, job)
    content.extra["called"] = asdict(collector.names)
    return content


def _files(path: Path, options: ColumnOptions) -> list[Source]:
    files = find_sources(path, _FILES, "CSV, TSV or Parquet file")
    kinds = sorted({Path(file.file_name).suffix.lower() for file in files})
    if len(kinds) > 1:
        raise DataError(f"holds {', '.join(kinds)} files", f"name one, e.g. {files[0].name}", file=str(path))
    return [replace(file, encoding=options.encoding) for file in files]
