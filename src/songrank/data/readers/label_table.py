"""Features or texts with labels, in memory or in a table with a column of label lists."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from pydantic import Field

from songrank.core.columns import Array
from songrank.core.csr import CSR
from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.content import Content
from songrank.data.preparation.labelled_queries import Role, feature_content
from songrank.data.preparation.row_writer import FeatureWriter
from songrank.data.preparation_options import FeatureRowOptions
from songrank.io.source import Job, Source
from songrank.io.tables.polars_frames import TABLE, collect, column_names, need_column, read_parquet, to_polars
from songrank.io.tables.typed_columns import read_column, read_known_features

_LABELS = ("labels", "tags", "label", "target")
_LISTS = "expected a list of whole numbers or strings in every row"
_BLOCK = 1 << 22


@dataclass(frozen=True)
class LabelledRows:
    """A data set in memory.

    ``labels`` holds ``item`` and ``label`` of every row. Rows have ``texts``, or ``features`` as CSR blocks of row
    lengths, feature indices (below ``num_features``, with optional ``names``) and values.
    """

    labels: CSR
    item_ids: Ids
    texts: Iterable[str] = ()
    features: Iterable[tuple[Array, Array, Array]] = ()
    num_features: int = 0
    names: tuple[str, ...] | None = None


class LabelTableOptions(FeatureRowOptions):
    """Options of a label table; all columns except labels are features."""

    labels_column: str = Field("auto", description="Column of label lists; auto: detected by name.")


def label_rows(source: Any, options: LabelTableOptions, job: Job, scratch: Path) -> Content:
    """Read a table in memory, a Parquet file, or ``LabelledRows``."""
    rows = source if isinstance(source, LabelledRows) else _from_table(source, options, job)
    writer = FeatureWriter(scratch, options.scale)
    for lengths, index, value in rows.features:
        writer.append(lengths, index=index, value=value)
    count: dict[Role, int] = {"all": len(rows.labels)}
    columns = None if rows.names is None else {"names": list(rows.names)}
    return feature_content(count, rows.labels, writer, rows.item_ids, rows.num_features, options, job, columns)


def read_label_lists(column: pl.Series, file: str) -> tuple[CSR, Ids]:
    """Labels of each row from a column of lists, and the catalogue of labels that occur.

    >>> rows, ids = read_label_lists(pl.Series("labels", [["tax", "law"], [], ["tax"]]), "the table")
    >>> list(ids), rows.offsets.tolist(), rows["item"].tolist()
    (['law', 'tax'], [0, 2, 2, 3], [1, 0, 1])
    """
    inner = getattr(column.dtype, "inner", None)
    if column.null_count() or inner is None or not (inner.is_integer() or inner in (pl.String, pl.Null)):
        found = "missing in a row" if column.null_count() else f"of type {column.dtype}"
        raise DataError(f"{column.name} is {found}", _LISTS, file=file)
    lengths = column.list.len().to_numpy().astype(np.int64)
    flat = column.filter(pl.Series(lengths > 0)).explode()
    if flat.null_count() or (inner == pl.String and bool((flat == "").any())):
        raise DataError(f"{column.name} contains a missing or empty label", _LISTS, file=file)
    ids = Ids.of(flat.cast(pl.Int64).to_numpy() if inner.is_integer() else flat.to_list())
    item = ids.find(flat).int()
    return CSR.from_lengths(lengths, item=item, label=torch.ones(item.shape[0])), ids


def sparse_block(dense: Array) -> tuple[Array, Array, Array]:
    """Convert a dense block of rows to CSR.

    >>> [part.tolist() for part in sparse_block(np.array([[0.0, 2.0], [0.0, 0.0]], np.float32))]
    [[1, 0], [1], [2.0]]
    """
    row, index = np.nonzero(dense)
    return np.bincount(row, minlength=dense.shape[0]), index.astype(np.int32), dense[row, index]


def _from_table(source: Any, options: LabelTableOptions, job: Job) -> LabelledRows:
    if isinstance(source, Path):
        file = Source(source)
        if not file.file_name.lower().endswith(".parquet"):
            raise DataError("is not a Parquet file", "expected a Parquet file or a DataFrame", file=file.name)
        scanned, name = read_parquet(file, job), file.name
        frame = collect(scanned, column_names(scanned, name), name)
    else:
        frame, name = to_polars(source), TABLE
    column = need_column(options.labels_column, _LABELS, frame.columns, "labels", name)
    names = [other for other in frame.columns if other != column]
    if not names or not frame.height:
        raise DataError("has no rows or no features", "expected at least one of each", file=name)
    labels, ids = read_label_lists(frame[column], name)
    blocks = _blocks(frame.select(names), name)
    return LabelledRows(labels, ids, features=blocks, num_features=len(names), names=tuple(names))


def _blocks(frame: pl.DataFrame, file: str) -> Iterable[tuple[Array, Array, Array]]:
    step = max(1, _BLOCK // frame.width)
    for first in range(0, frame.height, step):
        part = frame[first : first + step]
        dense = np.empty(part.shape, np.float32)
        for at, name in enumerate(part.columns):
            dense[:, at] = read_column(read_known_features, part[name], "expected a finite number", file, None, first)
        yield sparse_block(dense)
