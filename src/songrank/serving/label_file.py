"""Batch prediction of labels for a file of texts."""

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import torch

from songrank.core.errors import DataError, shown
from songrank.core.processes import ALONE, Processes
from songrank.data.parsers.json_texts import json_lines
from songrank.io.source import Job, Progress, Source, check_utf8
from songrank.io.tables.input_table import InputTable, id_column
from songrank.io.tables.polars_frames import need_column
from songrank.io.tables.table_writer import table_writer
from songrank.io.tables.typed_columns import ID_EXPECTED, read_ids
from songrank.models.model_folder import ModelFolder
from songrank.serving.answer_tables import Written, label_frame
from songrank.serving.item_names import title_column
from songrank.serving.label_features import TABLES, Rows, feature_rows, id_reader
from songrank.serving.labels import Labels, label, texts_at_once

_JSON = (".json", ".jsonl", ".ndjson")


def label_file(
    folder: ModelFolder,
    texts: Path,
    output: Path,
    k: int = 5,
    *,
    text_column: str | None = None,
    names: Path | None = None,
    name_column: str | None = None,
    overwrite: bool = False,
    escape: bool = False,
    progress: Progress | None = None,
    warn: Callable[[str], None] = lambda message: None,
    processes: Processes = ALONE,
) -> Written:
    """Write a table of id (or row, from 0), label, score and rank; see ``songrank label`` for the options.

    ``names`` is a table of label ids and names, which adds a column ``title``; ``warn`` is called with one-line
    warnings.

    For a model of texts, ``texts`` is JSON lines, a CSV, TSV or Parquet table, or a file with one text per line; for a
    model of features, a file in the format of the training data: Extreme Classification text, ARFF, or a table. Several
    ``processes`` share the texts: each reads the file, and writes the rows of a range of the texts.
    """
    assert folder.item_ids is not None
    label_ids, done, labelled = id_column(folder.item_ids), 0, 0
    titles = None if names is None else title_column(names, folder, output, warn, name_column=name_column)
    with table_writer(output, overwrite=overwrite, processes=processes, escape=escape) as writer:
        own = _share(folder, texts, text_column, processes)
        for queries, ids in _read(folder, texts, text_column, Job(progress)):
            first = pl.Series("row", np.arange(done, done + len(queries))) if ids is None else pl.Series("id", ids)
            begin, end = (min(max(0, bound - done), len(queries)) for bound in own)
            first = first[begin:end]
            if begin == end and not done:  # for the columns
                nothing = Labels(torch.zeros(0, k, dtype=torch.int64), torch.zeros(0, k))
                writer.write(label_frame(first, nothing, label_ids, titles))
            for found in label(folder, queries[begin:end], k):
                writer.write(label_frame(first[: len(found.item)], found, label_ids, titles))
                first = first[len(found.item) :]
            done, labelled = done + len(queries), labelled + end - begin
    return Written(labelled, writer.rows).total(processes)


def _share(folder: ModelFolder, path: Path, text_column: str | None, processes: Processes) -> tuple[int, int]:
    """The range of rows of a process: whole batches of one process, so that scores do not depend on their number."""
    if processes.world == 1:
        return 0, sys.maxsize
    step, bounds = texts_at_once(folder), [0]
    for queries, _ in _read(folder, path, text_column, Job()):
        done, rows = bounds[-1], len(queries)
        bounds += [done + min(at + step, rows) for at in range(0, rows, step)]
    own = processes.share(list(pairwise(bounds)))
    return (own[0][0], own[-1][1]) if own else (0, 0)


def _read(folder: ModelFolder, path: Path, text_column: str | None, job: Job) -> Iterator[Rows]:
    """Read the rows of a file as model input."""
    source = Source(path)
    ending = Path(source.file_name).suffix.lower()
    table = ending in TABLES and folder.reads_texts
    if text_column is not None and not table:
        raise DataError("is not a table of texts", "omit --text-column", file=str(path))
    if not folder.reads_texts:
        return feature_rows(folder, source, ending, job)
    if table:
        return _table(path, text_column, job)
    if ending in _JSON:
        return _json(source, job)
    if ending == ".txt":
        return _lines(source, job)
    fix = f"expected texts in a file with suffix {', '.join((*_JSON, *TABLES))} or .txt"
    raise DataError(f"unknown suffix {ending!r}", fix, file=str(path))


def _json(source: Source, job: Job) -> Iterator[Rows]:
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


def _lines(source: Source, job: Job) -> Iterator[Rows]:
    for block in source.blocks(job):
        check_utf8(block)
        yield (block.data.decode().removesuffix("\n").split("\n"), None)


def _table(path: Path, text_column: str | None, job: Job) -> Iterator[Rows]:
    table = InputTable(path, job)
    name = need_column(text_column or "auto", ("text",), table.columns, "text", table.name)
    others = [column for column in table.columns if column != name]
    named = id_reader(table, Source(path), others)
    for block in table.blocks([name] if named is None else [name, named[0]]):
        ids = None if named is None else block.read(read_ids, named[0], ID_EXPECTED).cast(named[1]).to_list()
        yield (block.read(read_texts, name, "expected a string"), ids)


def read_texts(column: pl.Series) -> list[str] | None:
    """Texts, or None if one is missing or not a string."""
    if column.null_count() or column.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return None
    return column.cast(pl.String).to_list()
