"""Rows of features for a labelling model: bags of words, ARFF files, and tables with the columns of training."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.core.csr import CSR
from songrank.core.errors import DataError, shown
from songrank.data.parsers.arff_header import ArffHeader, read_header, shown_values
from songrank.data.parsers.arff_rows import ArffRows, Column, feature_codes
from songrank.data.readers.xmc import read_bags
from songrank.io.source import Job, Source
from songrank.io.tables.input_table import InputTable, are_whole
from songrank.io.tables.polars_frames import find_column
from songrank.io.tables.typed_columns import ID_EXPECTED, read_ids, read_known_features
from songrank.models.model_folder import ModelFolder
from songrank.serving.labels import texts_at_once

TABLES = (".csv", ".tsv", ".parquet")
Rows = tuple[Any, Sequence[str | int] | None]
"""A block of rows: model input, and ids if any."""


def feature_rows(folder: ModelFolder, source: Source, ending: str, job: Job) -> Iterator[Rows]:
    """Rows of a file in the format of the training data."""
    told = folder.info["features"]
    expected: tuple[str, ...]
    if told.get("names") is not None:
        expected, wanted, read = TABLES, f"a {', '.join(TABLES)} table with the columns of training", _table
    elif told.get("attributes") is not None:
        expected, wanted, read = (".arff",), "an .arff file with the attributes of training", _arff
    else:
        expected, wanted, read = (".txt",), "a .txt file in the Extreme Classification format", _bags
    if ending not in expected:
        what = "contains texts" if ending in (".json", ".jsonl", ".ndjson") else f"unknown suffix {ending!r}"
        raise DataError(what, f"expected {wanted}, for this model of features", file=source.name)
    return read(folder, source, job)


def id_reader(table: InputTable, source: Source, others: Sequence[str]) -> tuple[str, Any] | None:
    """The column of ids among ``others`` and its type, integers if all ids are; None without such a column."""
    called = find_column("auto", ("id", "uid"), others, "id", table.name)
    if called is None:
        return None
    again = InputTable(source, Job())  # read all ids first: a single string makes all of them strings
    whole = all(are_whole(block.read(read_ids, called, ID_EXPECTED)) for block in again.blocks([called]))
    return called, pl.Int64 if whole else pl.String


def _table(folder: ModelFolder, source: Source, job: Job) -> Iterator[Rows]:
    """Columns of training by name; other columns are ignored, except one of ids."""
    names, table = list(folder.info["features"]["names"]), InputTable(source, job)
    missing = [name for name in names if name not in table.columns]
    if missing:
        listed = ", ".join(map(repr, missing[:12])) + (f" and {len(missing) - 12:,} more" if missing[12:] else "")
        fix = f"expected the {len(names):,} features of training"
        raise DataError(f"has no column {listed}", fix, file=table.name)
    named = id_reader(table, source, [column for column in table.columns if column not in names])
    for block in table.blocks(names if named is None else [*names, named[0]]):
        dense = np.empty((block.frame.height, len(names)), np.float32)
        for at, name in enumerate(names):
            dense[:, at] = block.read(read_known_features, name, "expected a finite number")
        ids = None if named is None else block.read(read_ids, named[0], ID_EXPECTED).cast(named[1]).to_list()
        yield dense, ids


def _arff(folder: ModelFolder, source: Source, job: Job) -> Iterator[Rows]:
    """Attributes of training by name; other attributes, such as labels, are ignored, and missing values are 0."""
    header, blocks = read_header(source, job)
    columns = _arff_columns(folder.info["features"]["attributes"], header, source.name)
    width, done = int(folder.info["features"]["count"]), 0
    for block in blocks:
        read = ArffRows(columns, source.name)
        read.read(block)
        table = CSR.from_lengths(
            np.array(read.feature_counts, np.int64),
            index=np.array(read.index, np.int64),
            value=np.array(read.value, np.float32),
        )
        done += len(table)
        yield from ((dense, None) for dense in _dense(folder, table, width))
    if not done:
        raise DataError("has no rows", "expected at least one", file=source.name)


def _arff_columns(trained: Sequence[Any], header: ArffHeader, file: str) -> list[Column]:
    """The feature of each attribute of a file; attributes of the same name are matched in order."""
    places: dict[str, list[int]] = {}
    for at, attribute in enumerate(header.attributes):
        places.setdefault(attribute.name, []).append(at)
    columns = [Column(attribute.name, 0, False, None, ignored=True) for attribute in header.attributes]
    first = 0
    for name, values in trained:
        if not places.get(name):
            what = f"has no attribute {shown(name)}"
            raise DataError(what, f"expected the {len(trained):,} attributes of training", file=file)
        at = places[name].pop(0)
        found = header.attributes[at].values
        if (None if found is None else list(found)) != values:
            kinds = ("numeric" if one is None else f"{{{shown_values(one)}}}" for one in (found, values))
            what = "attribute {} is {}, but in training it was {}".format(shown(name), *kinds)
            raise DataError(what, "expected the same values in the same order", file=file)
        codes = feature_codes(values)
        columns[at] = Column(name, first, False, codes)
        first += 1 if codes is None else len(codes) - 1
    return columns


def _bags(folder: ModelFolder, source: Source, job: Job) -> Iterator[Rows]:
    """Bags of words as dense rows, one batch of the model at a time."""
    width, done = int(folder.info["features"]["count"]), 0
    said, blocks = read_bags(source, job, any_labels=True)
    if said.features != width:
        what = f"the header gives {said.features:,} features"
        raise DataError(what, f"expected {width:,}, as in training", file=source.name, line=1)
    for bags in blocks:
        table = CSR.from_lengths(bags.feature_counts, index=bags.index, value=bags.value)
        yield from ((dense, None) for dense in _dense(folder, table, width))
        done += len(table)
    if not done:
        raise DataError("has no rows", "expected at least one", file=source.name)


def _dense(folder: ModelFolder, table: CSR, width: int) -> Iterator[Array]:
    """Sparse rows as dense ones, one batch of the model at a time."""
    step = texts_at_once(folder)
    for first in range(0, len(table), step):
        part = table.take(range(first, min(len(table), first + step)))
        dense = np.zeros((len(part), width), np.float32)
        dense[part.row_of_entries().numpy(), part["index"].numpy()] = part["value"].numpy()
        yield dense
