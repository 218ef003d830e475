"""LETOR text of MSLR, Yahoo!, Istella, LETOR 3 and 4 and LightGBM: ``label qid:ID 1:value … # comment`` per line."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from pydantic import Field

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.core.errors import DataError, shown
from songrank.data.content import Content
from songrank.data.dataset import SPLITS
from songrank.data.parsers.svmlight import Rows, parse_rows
from songrank.data.preparation.document_lists import ListOptions, ListRows
from songrank.data.preparation.splits import UNNAMED
from songrank.data.readers.letor_files import LetorFile, find_files
from songrank.io.source import Job, Source

_SIZE = re.compile(rb"[0-9]{1,12}")


class LetorOptions(ListOptions):
    """Options of LETOR text."""

    fold: int | None = Field(None, ge=1, description="Fold, if there are several; the first by default.")
    set: int | None = Field(None, ge=1, description="Set, if there are several (Yahoo!); the first by default.")
    first_index: int | None = Field(
        None, ge=0, le=1, description="Index of the first feature; 1 by default, or detected beside group sizes."
    )
    max_index: int = Field(10_000, ge=1, le=2**31 - 1, description="Maximum feature index; larger ones are errors.")


def letor(source: Path, options: LetorOptions, job: Job, scratch: Path) -> Content:
    """Read all files of a fold, set or partition, or a single file."""
    found = find_files(source, options.fold, options.set)
    open_start = options.first_index is None and any(file.groups for file in found.files)
    first = 0 if open_start else 1 if options.first_index is None else options.first_index
    reader = _Reader(options, job, ListRows(scratch), first)
    for file in found.files:
        reader.read(file)
    if open_start and reader.lowest >= 1:
        first = reader.rows.features.skip = 1
    reader.rows.features.check_filled(first)
    content = reader.rows.content(options, job, {"first_index": first})
    return replace(content, extra={**content.extra, "source": found.chosen}) if found.chosen else content


class _Reader:
    """Reads files sequentially; groups are numbered across files."""

    def __init__(self, options: LetorOptions, job: Job, rows: ListRows, first: int) -> None:
        self.options, self.job, self.rows, self.first = options, job, rows, first
        self.lowest = options.max_index
        self.num_groups = 0

    def read(self, file: LetorFile) -> None:
        code = UNNAMED if file.split is None else SPLITS.index(file.split)
        ends = None if file.groups is None else group_ends(file.groups, self.job)
        done, with_query, most = 0, None, self.options.max_index
        for block in file.source.blocks(self.job):
            part = parse_rows(block.data, file=block.file, line=block.line, first_index=self.first, max_index=most)
            self.lowest = min(self.lowest, int(part.index.min(initial=self.lowest)))
            count = part.label.shape[0]
            if not count:
                continue
            if with_query not in (None, part.query is not None):
                what = "some lines have qid: and others do not"
                block.fail(what, "write 'qid:ID' after the label of every line", block.line)
            with_query = part.query is not None
            query = self.ids(part, file, ends, done)
            done += count
            self.rows.features.add_sparse(part.offsets, part.index - self.first, part.value)
            self.rows.add(query, part.label, np.broadcast_to(np.uint8(code), count))
        if not done:
            raise DataError("has no rows", "expected at least one document", file=file.source.name)
        if ends is not None and file.groups is not None:
            total = int(ends[-1]) if ends.size else 0
            if total != done:
                what = f"has {done:,} rows, but the group sizes in {file.groups.short_name} sum to {total:,}"
                fix = "expected one size per group, in row order"
                raise DataError(what, fix, file=file.source.name)
            self.num_groups += ends.shape[0]

    def ids(self, part: Rows, file: LetorFile, ends: Array | None, done: int) -> pl.Series:
        """The query id of each row, or its group number."""
        if ends is not None and file.groups is not None:
            if part.query is not None:
                what = f"has both qid: and group sizes in {file.groups.short_name}"
                raise DataError(what, "remove one of the two", file=file.source.name)
            at = np.arange(done, done + part.label.shape[0])
            return pl.Series(np.searchsorted(ends, at, side="right") + self.num_groups, dtype=pl.Int64)
        if part.query is None:
            what = f"has neither qid: nor a file {file.source.file_name}.query"
            fix = "write 'qid:ID' after each label, or one group size per line into that file"
            raise DataError(what, fix, file=file.source.name)
        is_whole = part.query.dtype.kind == "i"
        return pl.Series(part.query) if is_whole else pl.Series(part.query.tolist(), dtype=pl.String)


def group_ends(source: Source, job: Job) -> Array:
    """Cumulative group sizes, from a file with one size per line."""
    sizes: list[int] = []
    for block in source.blocks(job):
        for line, text in block.lines():
            if text.strip() and not _SIZE.fullmatch(text.strip()):
                block.fail(f"group size is {shown(text)}", "expected a whole number of rows", line)
            if text.strip():
                sizes.append(int(text))
    job.count("groups without rows", sizes.count(0))
    return numpy_offsets(sizes)[1:]
