"""The best labels for the texts of a file, written to a table."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from songrank.core.errors import DataError, shown
from songrank.data.parsers.bag_of_words import Header, parse_bags, parse_header
from songrank.data.parsers.json_texts import json_lines
from songrank.data.preparation.labelled_queries import MAX_LABELS
from songrank.data.readers.xmc import first_rows
from songrank.io.source import Block, Job, Progress, Source, check_utf8
from songrank.io.tables.input_table import InputTable, are_whole, id_column
from songrank.io.tables.polars_frames import find_column, need_column
from songrank.io.tables.table_writer import table_writer
from songrank.io.tables.typed_columns import ID_EXPECTED, read_ids
from songrank.models.model_folder import ModelFolder
from songrank.serving.answer_tables import label_frame
from songrank.serving.batches import texts_at_once
from songrank.serving.labels import label

_JSON = (".json", ".jsonl", ".ndjson")
_TABLES = (".csv", ".tsv", ".parquet")


class _Rows(NamedTuple):
    """Some rows of the input: what the model reads, and their ids, if they have any."""

    queries: Any
    ids: Sequence[str | int] | None


class LabelledFile(NamedTuple):
    """What was written: the number of texts, and of rows."""

    texts: int
    rows: int


def label_file(
    folder: ModelFolder,
    texts: Path,
    output: Path,
    k: int = 5,
    *,
    text_column: str | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> LabelledFile:
    """Write a table of id (or row, from 0), label, score and rank.

    Args:
        folder: of a labelling task.
        texts: for a model of words, JSON lines, a CSV, TSV or Parquet table, or text with one text per line; for a
            model of features, text in the Extreme Classification format.
        output: CSV or Parquet file to write.
        k: how many labels per text.
        text_column: column of texts of a table; None: ``text``.
        overwrite: replace an existing file.
        progress: receives progress.

    """
    assert folder.item_ids is not None
    names, done = id_column(folder.item_ids), 0
    with table_writer(output, overwrite=overwrite) as writer:
        for queries, ids in _read(folder, texts, text_column, Job(progress)):
            begin = 0
            for found in label(folder, queries, k):
                count = found.item.shape[0]
                rows = np.arange(begin, begin + count)
                first = pl.Series("row", rows + done) if ids is None else pl.Series("id", ids[begin : begin + count])
                writer.write(label_frame(first, found, names))
                begin += count
            done += begin
    return LabelledFile(done, writer.rows)


def _read(folder: ModelFolder, path: Path, text_column: str | None, job: Job) -> Iterator[_Rows]:
    """Rows of a file of the kind that the model can read."""
    source = Source(path)
    ending = Path(source.file_name).suffix.lower()
    table = ending in _TABLES and folder.inputs == "words"
    if text_column is not None and not table:
        raise DataError("is no table of texts", "leave out --text-column", file=str(path))
    if folder.inputs == "features":
        if ending != ".txt":
            fix = "expected text in the Extreme Classification format (.txt), as the model reads features"
            raise DataError(f"ends in {ending!r}", fix, file=str(path))
        return _bags(folder, source, job)
    if table:
        return _table(path, text_column, job)
    if ending in _JSON:
        return _json(source, job)
    if ending == ".txt":
        return _lines(source, job)
    fix = f"expected texts in a file that ends in {', '.join((*_JSON, *_TABLES))} or .txt"
    raise DataError(f"ends in {ending!r}", fix, file=str(path))


def _json(source: Source, job: Job) -> Iterator[_Rows]:
    kind: type | None = None
    rows = 0
    for lines in json_lines(source, job):
        names = [line.id() for line in lines]
        for line, name in zip(lines, names, strict=True):
            kind = kind or type(name)
            if type(name) is not kind:
                line.fail(f"its id is {shown(name)}", "give every row an id, or none: all numbers, or all texts")
        rows += len(lines)
        if lines:
            ids = [name for name in names if name is not None]
            yield _Rows([line.text() for line in lines], ids or None)
    if not rows:
        raise DataError("has no rows", "expected at least one JSON object", file=source.name)


def _lines(source: Source, job: Job) -> Iterator[_Rows]:
    for block in source.blocks(job):
        check_utf8(block)
        yield _Rows(block.data.decode().removesuffix("\n").split("\n"), None)


def _table(path: Path, text_column: str | None, job: Job) -> Iterator[_Rows]:
    table = InputTable(path, job)
    name = need_column(text_column or "auto", ("text",), table.columns, "text", table.name)
    others = [column for column in table.columns if column != name]
    called = find_column("auto", ("id", "uid"), others, "id", table.name)
    kind: Any = None
    if called is not None:  # first all ids, block by block: one that is a text makes all of them texts
        again = InputTable(path, Job())
        whole = all(are_whole(block.read(read_ids, called, ID_EXPECTED)) for block in again.blocks([called]))
        kind = pl.Int64 if whole else pl.String
    for block in table.blocks([name] if called is None else [name, called]):
        ids = None if called is None else block.read(read_ids, called, ID_EXPECTED).cast(kind).to_list()
        yield _Rows(block.read(_read_texts, name, "expected a text"), ids)


def _read_texts(column: pl.Series) -> list[str] | None:
    """Texts as they are, or None if one is missing or is none."""
    if column.null_count() or column.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return None
    return column.cast(pl.String).to_list()


def _bags(folder: ModelFolder, source: Source, job: Job) -> Iterator[_Rows]:
    """Bags of words as dense rows, as many at a time as the model scores at once."""
    said: Header | None = None
    width, done, step = int(folder.info["features"]["count"]), 0, texts_at_once(folder)
    for block in source.blocks(job):
        if said is None:
            line, _, data = block.data.partition(b"\n")
            said, block = parse_header(line, source.name), Block(data, 2, source.name)
            if said.features != width:
                what = f"the first line says {said.features:,} features"
                raise DataError(what, f"expected {width:,}, as in training", file=source.name, line=1)
        block = first_rows(block, said.rows - done, said.rows)
        if not block.data:
            continue
        bags = parse_bags(block, Header(said.rows, said.features, MAX_LABELS))
        ends = np.concatenate([[0], np.cumsum(bags.feature_counts)])
        rows = bags.feature_counts.shape[0]
        for first in range(0, rows, step):
            last = min(rows, first + step)
            dense = np.zeros((last - first, width), np.float32)
            row = np.repeat(np.arange(last - first), bags.feature_counts[first:last])
            part = slice(ends[first], ends[last])
            dense[row, bags.index[part]] = bags.value[part]
            yield _Rows(dense, None)
        done += rows
    if said is not None and done < said.rows:
        what = f"the first line says {said.rows:,} rows, but there are {done:,}"
        raise DataError(what, "fetch the file again, or mend its first line", file=source.name)
    if not done:
        raise DataError("has no rows", "expected at least one", file=source.name)
