"""Delimited text tables with a header and quotes, read in blocks as string columns."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice

import polars as pl

from songrank.core.errors import DataError, shown
from songrank.io.source import MAX_LINE_BYTES, Block, Job, Source, check_utf8

csv.field_size_limit(MAX_LINE_BYTES)  # Python's default limit is 128 KiB
_SEPARATORS = ("\t", ",", ";", "|")


class DelimitedFile:
    """A CSV or TSV file; with ``separator=None`` it is detected in the first line."""

    def __init__(self, source: Source, separator: str | None, job: Job) -> None:
        if separator is not None and (len(separator.encode()) != 1 or separator in '"\r\n'):
            raise DataError(f"separator is {separator!r}", "expected one character, e.g. , or ; or a tab")
        self.name = source.name
        self._blocks = source.blocks(job, quotes=True)
        first = next(self._blocks)
        check_utf8(first)
        head, _, rest = first.data.partition(b"\n")
        self._head = head.decode()
        if self._head.lstrip("\ufeff \t").startswith(("{", "[")):
            fix = "convert it to CSV or Parquet, for example with polars.read_ndjson(…).write_parquet(…)"
            raise DataError("contains JSON, not a table", fix, file=self.name, line=1)
        best = max(_SEPARATORS, key=self._head.count)
        self._separator = separator or (best if best in self._head else ",")
        self.columns = _names(self._head, self._separator, self.name)
        self._first = Block(rest, first.line + 1, first.file)

    def frames(self, columns: Sequence[str]) -> Iterator[tuple[pl.DataFrame, Callable[[int], int]]]:
        """Blocks of these columns as strings, null where empty, each with a function from row to line."""
        if any(self.columns.count(name) > 1 for name in columns):
            raise _bad_names(self._head, self._separator, self.name)
        rows = 0
        for block in chain([self._first], self._blocks):
            if not block.data.strip():
                continue
            check_utf8(block)
            frame = self._fast(block, columns)
            frame = self.careful(block, columns) if frame is None else frame
            rows += frame.height
            yield frame, partial(self._line, block)
        if not rows:
            raise DataError("has no rows", "expected at least one", file=self.name)

    def _fast(self, block: Block, columns: Sequence[str]) -> pl.DataFrame | None:
        """Parse a block with polars; None unless every line has all columns."""
        lines = block.data.count(b"\n")
        separators = block.data.count(self._separator.encode())
        if b'"' in block.data or separators != lines * (len(self.columns) - 1):
            return None
        try:
            frame = pl.read_csv(
                io.BytesIO(block.data),
                has_header=False,
                schema={str(at): pl.String for at in range(len(self.columns))},
                columns=[self.columns.index(name) for name in columns],
                separator=self._separator,
                quote_char=None,
            )
        except pl.exceptions.PolarsError:
            return None
        if frame.height != lines:
            return None
        return frame.select(pl.col(str(self.columns.index(name))).alias(name) for name in columns)

    def careful(self, block: Block, columns: Sequence[str]) -> pl.DataFrame:
        """Parse row by row: the reference implementation, for quotes and error messages."""
        places = [self.columns.index(name) for name in columns]
        found: list[list[str | None]] = [[] for _ in columns]
        for line, fields in self._rows(block):
            if len(fields) != len(self.columns):
                what = f"has {len(fields)} columns: {shown(self._separator.join(fields))}"
                block.fail(what, f"expected {len(self.columns)}, as in the header", line)
            for column, place in zip(found, places, strict=True):
                column.append(fields[place] or None)
        return pl.DataFrame({name: pl.Series(c, dtype=pl.String) for name, c in zip(columns, found, strict=True)})

    def _rows(self, block: Block) -> Iterator[tuple[int, list[str]]]:
        reader = csv.reader(io.StringIO(block.data.decode(), newline=""), delimiter=self._separator, strict=True)
        start = 0
        try:
            for fields in reader:
                if fields and (len(fields) > 1 or fields[0].strip()):
                    yield block.line + start, fields
                start = reader.line_num
        except csv.Error as error:
            block.fail(f"cannot be read ({error})", "check for unbalanced quotes", block.line + start)

    def _line(self, block: Block, row: int) -> int:
        return next(islice(self._rows(block), row, None))[0]


def _names(head: str, separator: str, file: str) -> list[str]:
    try:
        names = [name.strip() for name in next(csv.reader([head], delimiter=separator, skipinitialspace=True), [])]
    except csv.Error:  # e.g. a lone carriage return
        names = []
    if not any(names):
        raise _bad_names(head, separator, file)
    return names


def _bad_names(head: str, separator: str, file: str) -> DataError:
    what = f"the first line is {shown(head)}"
    return DataError(what, f"expected unique column names separated by {separator!r}", file=file, line=1)
