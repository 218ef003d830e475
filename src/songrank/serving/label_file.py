"""Batch prediction of labels for a file of texts."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from songrank.core.csr import CSR
from songrank.core.errors import DataError, shown
from songrank.data.parsers.json_texts import json_lines
from songrank.data.readers.xmc import read_bags
from songrank.io.source import Job, Progress, Source, check_utf8
from songrank.io.tables.input_table import InputTable, are_whole, id_column
from songrank.io.tables.polars_frames import find_column, need_column
from songrank.io.tables.table_writer import table_writer
from songrank.io.tables.typed_columns import ID_EXPECTED, read_ids
from songrank.models.model_folder import ModelFolder
from songrank.serving.answer_tables import Written, label_frame
from songrank.serving.labels import label, texts_at_once

_JSON = (".json", ".jsonl", ".ndjson")
_TABLES = (".csv", ".tsv", ".parquet")
_Rows = tuple[Any, Sequence[str | int] | None]  # a block of rows: model input and ids, if any


def label_file(
    folder: ModelFolder,
    texts: Path,
    output: Path,
    k: int = 5,
    *,
    text_column: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Written:
    """Write a table of id (or row, from 0), label, score and rank; see ``songrank label`` for the options.

    For a model of texts, ``texts`` is JSON lines, a CSV, TSV or Parquet table, or a file with one text per line; for a
    model of features, a file in the Extreme Classification format.
    """
    assert folder.item_ids is not None
    names, done = id_column(folder.item_ids), 0
    with table_writer(output, overwrite=overwrite) as writer:
        for queries, ids in _read(folder, texts, text_column, Job(progress)):
            first = pl.Series("row", np.arange(done, done + len(queries))) if ids is None else pl.Series("id", ids)
            for found in label(folder, queries, k):
                writer.write(label_frame(first[: len(found.item)], found, names))
                first = first[len(found.item) :]
            done += len(queries)
    return Written(done, writer.rows)


def _read(folder: ModelFolder, path: Path, text_column: str | None, job: Job) -> Iterator[_Rows]:
    """Read the rows of a file as model input."""
    source = Source(path)
    ending = Path(source.file_name).suffix.lower()
    table = ending in _TABLES and folder.reads_texts
    if text_column is not None and not table:
        raise DataError("is not a table of texts", "omit --text-column", file=str(path))
    if not folder.reads_texts:
        if ending != ".txt":
            fix = "expected a .txt file in the Extreme Classification format, for a model of features"
            raise DataError(f"unknown suffix {ending!r}", fix, file=str(path))
        return _bags(folder, source, job)
    if table:
        return _table(path, text_column, job)
    if ending in _JSON:
        return _json(source, job)
    if ending == ".txt":
        return _lines(source, job)
    fix = f"expected texts in a file with suffix {', '.join((*_JSON, *_TABLES))} or .txt"
    raise DataError(f"unknown suffix {ending!r}", fix, file=str(path))


def _json(source: Source, job: Job) -> Iterator[_Rows]:
    kind: type | None = None
    for lines in json_lines(source, job):
        names = [line.id() for line in lines]
        for line, name in zip(lines, names, strict=True):
            kind = kind or type(name)
            if type(name) is not kind:
                line.fail(f"id is {shown(name)}", "expected ids in all rows or none, all numbers or all strings")
        if lines:
            ids = [name for name in names if name is not None]
            yield ([line.text() for line in lines], ids or None)
    if kind is None:
        raise DataError("has no rows", "expected at least one JSON object", file=source.name)


def _lines(source: Source, job: Job) -> Iterator[_Rows]:
    for block in source.blocks(job):
        check_utf8(block)
        yield (block.data.decode().removesuffix("\n").split("\n"), None)


def _table(path: Path, text_column: str | None, job: Job) -> Iterator[_Rows]:
    table = InputTable(path, job)
    name = need_column(text_column or "auto", ("text",), table.columns, "text", table.name)
    others = [column for column in table.columns if column != name]
    called = find_column("auto", ("id", "uid"), others, "id", table.name)
    kind: Any = None
    if called is not None:  # read all ids first: a single string makes all of them strings
        again = InputTable(path, Job())
        whole = all(are_whole(block.read(read_ids, called, ID_EXPECTED)) for block in again.blocks([called]))
        kind = pl.Int64 if whole else pl.String
    for block in table.blocks([name] if called is None else [name, called]):
        ids = None if called is None else block.read(read_ids, called, ID_EXPECTED).cast(kind).to_list()
        yield (block.read(_read_texts, name, "expected a string"), ids)


def _read_texts(column: pl.Series) -> list[str] | None:
    """Texts, or None if one is missing or not a string."""
    if column.null_count() or column.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return None
    return column.cast(pl.String).to_list()


def _bags(folder: ModelFolder, source: Source, job: Job) -> Iterator[_Rows]:
    """Bags of words as dense rows, one batch of the model at a time."""
    width, done, step = int(folder.info["features"]["count"]), 0, texts_at_once(folder)
    said, blocks = read_bags(source, job, any_labels=True)
    if said.features != width:
        what = f"the header gives {said.features:,} features"
        raise DataError(what, f"expected {width:,}, as in training", file=source.name, line=1)
    for bags in blocks:
        table = CSR.from_lengths(bags.feature_counts, index=bags.index, value=bags.value)
        for first in range(0, len(table), step):
            part = table.take(range(first, min(len(table), first + step)))
            dense = np.zeros((len(part), width), np.float32)
            dense[part.row_of_entries().numpy(), part["index"].numpy()] = part["value"].numpy()
            yield (dense, None)
        done += len(table)
    if not done:
        raise DataError("has no rows", "expected at least one", file=source.name)
