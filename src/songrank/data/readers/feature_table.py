"""Documents with features: CSV, TSV and Parquet files, or a DataFrame."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from songrank.core.errors import DataError
from songrank.data.content import Content
from songrank.data.dataset import SPLITS
from songrank.data.preparation.document_lists import ListOptions, ListRows
from songrank.data.preparation.splits import UNNAMED
from songrank.data.readers.split_column import read_splits
from songrank.data.split_names import in_order, name_splits
from songrank.io.source import Job, check_one_kind, find_sources
from songrank.io.tables.input_table import Block, InputTable
from songrank.io.tables.polars_frames import find_column, need_column
from songrank.io.tables.typed_columns import ID_EXPECTED, LABEL_EXPECTED, read_features, read_ids, read_labels

QUERY_NAMES = ("qid", "query_id", "query", "group", "group_id", "session_id", "search_id", "srch_id")
_LABEL = ("label", "relevance", "rel", "grade", "rating", "target", "y")
_ENDINGS = (".parquet", ".csv", ".tsv", ".txt")


class FeatureTableOptions(ListOptions):
    """Options of a table of documents; all columns without another role are features."""

    query_column: str = Field("auto", description="Column of query ids; auto: detected by name.")
    label_column: str = Field("auto", description="Column of labels; auto: detected by name.")
    split_column: str | None = Field("auto", description="Column of train, validation, test; auto: split, if any.")
    weight_column: str | None = Field(None, description="Column of training weights, constant per query.")
    ignore: list[str] = Field(default_factory=list, description="Columns to ignore, comma-separated.")
    separator: str | None = Field(None, description="Separator of a text file; detected by default.")
    encoding: str = Field("utf-8", description="Encoding of a text file.")

    @field_validator("ignore", mode="before")
    @classmethod
    def _from_words(cls, value: Any) -> Any:
        """Split a comma-separated list of the command line."""
        return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


@dataclass(frozen=True)
class FeatureTableColumns:
    """Names of columns by role."""

    query: str
    label: str
    split: str | None
    weight: str | None
    features: tuple[str, ...]

    @classmethod
    def find(cls, columns: list[str], options: FeatureTableOptions, file: str) -> "FeatureTableColumns":
        """Columns from options or by usual names; the remaining columns are features, in table order."""
        for name in options.ignore:
            need_column(name, (), columns, "ignored", file)
        left = [name for name in columns if name not in options.ignore]
        query = need_column(options.query_column, QUERY_NAMES, left, "query", file)
        label = need_column(options.label_column, _LABEL, [n for n in left if n != query], "label", file)
        others = [name for name in left if name not in (query, label)]
        split = find_column(options.split_column, ("split",), others, "split", file)
        weight = find_column(options.weight_column, (), left, "weight", file)
        features = tuple(name for name in left if name not in (query, label, split, weight))
        if not features:
            raise DataError(f"has no features besides {query!r} and {label!r}", "expected more columns", file=file)
        return cls(query, label, split, weight, features)

    @property
    def all(self) -> list[str]:
        """Names of all columns to read."""
        named = [name for name in (self.query, self.label, self.split, self.weight) if name is not None]
        return [*named, *self.features]


def feature_table(source: Any, options: FeatureTableOptions, job: Job, scratch: Path) -> Content:
    """Read files named by split or part, a table, or an iterator of tables, of which one is in memory at a time."""
    rows, first = ListRows(scratch), None
    for one, split in _sources(source, options):
        table = InputTable(one, job, options.separator)
        names = FeatureTableColumns.find(table.columns, options, table.name)
        first = first or names
        if odd := set(names.features) ^ set(first.features):
            what = f"features differ from the previous file: {', '.join(map(repr, sorted(odd)[:5]))}"
            raise DataError(what, "expected the same features in all files", file=table.name)
        names = replace(names, features=first.features)
        for block in table.blocks(names.all, least="expected at least one document"):
            _add(block, names, split, rows)
    assert first is not None
    return rows.content(options, job, {"names": list(first.features)})


def _sources(source: Any, options: FeatureTableOptions) -> Iterable[tuple[Any, str | None]]:
    if not isinstance(source, Path):
        return ((table, None) for table in (source if isinstance(source, Iterator) else (source,)))
    found = find_sources(source, [f"*{ending}" for ending in _ENDINGS], "CSV, TSV or Parquet file")
    files = in_order(name_splits(found, source, _ENDINGS), source)
    if files[0][1] is None:
        check_one_kind(found, source)
    return [(replace(file, encoding=options.encoding), split) for file, split in files]


def _add(block: Block, names: FeatureTableColumns, split: str | None, rows: ListRows) -> None:
    """Validate and append a block of rows."""
    query = block.read(read_ids, names.query, ID_EXPECTED)
    label = block.read(read_labels, names.label, LABEL_EXPECTED)
    if names.split is not None:
        codes = read_splits(block, names.split)
    else:
        codes = np.full(block.frame.height, UNNAMED if split is None else SPLITS.index(split), np.uint8)
    features = np.empty((block.frame.height, len(names.features)), np.float32)
    for at, name in enumerate(names.features):
        fix = f"expected a finite number; correct it, or pass --ignore {name}"
        features[:, at] = block.read(read_features, name, fix)
    rows.features.add(features)
    weight = None if names.weight is None else block.read(read_labels, names.weight, LABEL_EXPECTED)
    rows.add(query, label, codes, weight)
