"""LETOR text: ``label qid:ID 1:value 2:value … # comment``, one document per line.

MSLR-WEB10K and 30K, Yahoo!'s challenge, Istella, LETOR 3 and 4, and LightGBM's files with group sizes: rows are alike,
file names differ (:mod:`songrank.data.readers.letor_files`).
"""

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
    """LETOR text to splits and features."""

    fold: int | None = Field(None, ge=1, description="of a source with several; the first if not given")
    set: int | None = Field(None, ge=1, description="of a source with several (Yahoo!); the first if not given")
    first_index: int | None = Field(
        None, ge=0, le=1, description="number of the first feature; 1 if not given, or as found beside group sizes"
    )
    max_index: int = Field(
        10_000, ge=1, le=2**31 - 1, description="a feature with a larger number is taken for a mistake"
    )


def letor(source: Path, options: LetorOptions, job: Job, scratch: Path) -> Content:
    """Rows of all files of a fold, a set, a partition, or of a single file."""
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
    """Reads one file after the other; groups are numbered through all of them."""

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
                what = "some lines before this one have qid: and some from here on do not, or the other way round"
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
                what = f"has {done:,} rows, and the groups in {file.groups.short_name} sum to {total:,}"
                fix = "give a size for every group, in the order of the rows"
                raise DataError(what, fix, file=file.source.name)
            self.num_groups += ends.shape[0]

    def ids(self, part: Rows, file: LetorFile, ends: Array | None, done: int) -> pl.Series:
        """The query of each row, or the number of its group."""
        if ends is not None and file.groups is not None:
            if part.query is not None:
                what = f"its lines have qid:, and {file.groups.short_name} gives group sizes too"
                raise DataError(what, "remove one of the two", file=file.source.name)
            at = np.arange(done, done + part.label.shape[0])
            return pl.Series(np.searchsorted(ends, at, side="right") + self.num_groups, dtype=pl.Int64)
        if part.query is None:
            what = f"its lines have no qid:, and there is no {file.source.file_name}.query beside it"
            fix = "write 'qid:ID' after each label, or the sizes of the groups, one a line, into that file"
            raise DataError(what, fix, file=file.source.name)
        is_whole = part.query.dtype.kind == "i"
        return pl.Series(part.query) if is_whole else pl.Series(part.query.tolist(), dtype=pl.String)


def group_ends(source: Source, job: Job) -> Array:
    """The number of rows up to the end of each group, from a file with one size per line."""
    sizes: list[int] = []
    for block in source.blocks(job):
        for line, text in block.lines():
            if text.strip() and not _SIZE.fullmatch(text.strip()):
                block.fail(f"group size is {shown(text)}", "expected a whole number of rows", line)
            if text.strip():
                sizes.append(int(text))
    job.count("groups without rows", sizes.count(0))
    return numpy_offsets(sizes)[1:]
