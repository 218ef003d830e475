"""Rows of the Extreme Classification format, ``label,label index:value index:value``, after a header of counts.

A row may have no label (its line starts with a space or a feature), no feature, or neither.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from songrank.core.columns import Array
from songrank.core.errors import DataError, shown
from songrank.data.parsers.svmlight import parse_rows
from songrank.data.parsers.svmlight.lines import number
from songrank.data.preparation.labelled_queries import MAX_LABELS
from songrank.io.source import Block

_FEATURE_CHARACTERS = b"0123456789.:eE+- \n"
_LABEL_CHARACTERS = b"0123456789,"
_MAX_FEATURES = 2**31 - 1
_MAX_DIGITS = 18


@dataclass(frozen=True)
class Header:
    """The header: numbers of rows, features and labels."""

    rows: int
    features: int
    labels: int


@dataclass(frozen=True)
class Bags:
    """Rows of a block: numbers of labels and features per row, and the concatenated labels and features."""

    label_counts: Array
    item: Array
    feature_counts: Array
    index: Array
    value: Array


def parse_header(line: bytes, file: str) -> Header:
    """Parse the header.

    >>> parse_header(b"15539 5000 3993", "train.txt")
    Header(rows=15539, features=5000, labels=3993)
    """
    words = line.split()
    if len(words) != 3 or not all(word.isdigit() and len(word) <= _MAX_DIGITS for word in words):
        fix = "expected three whole numbers: rows, features and labels"
        raise DataError(f"the first line is {shown(line)}", fix, file=file, line=1)
    header = Header(*map(int, words))
    for what, found, most in (("features", header.features, _MAX_FEATURES), ("labels", header.labels, MAX_LABELS)):
        if found > most:
            raise DataError(f"the header gives {found:,} {what}", f"expected at most {most:,}", file=file, line=1)
    return header


def parse_bags(block: Block, header: Header) -> Bags:
    """Parse whole lines after the header; every line is a row."""
    return parse_all_at_once(block, header) or parse_line_by_line(block, header)


def parse_all_at_once(block: Block, header: Header) -> Bags | None:
    """Parse all lines at once, or return None for irregular blocks."""
    heads, tails = [], []
    for _, line in block.lines():
        head, _, tail = line.partition(b" ")
        if b":" in head:
            head, tail = b"", line
        heads.append(head)
        tails.append(tail)
    item = _labels(b",".join(filter(None, heads)), header)
    text = b"0 " + b"\n0 ".join(tails)  # a dummy label, so that no line is skipped
    if item is None or text.translate(None, _FEATURE_CHARACTERS):
        return None
    try:
        rows = parse_rows(text, file=block.file, first_index=0, max_index=header.features - 1)
    except DataError:  # here features may have any order
        return None
    counts = np.array([head.count(b",") + 1 if head else 0 for head in heads], np.int64)
    return Bags(counts, item, np.diff(rows.offsets), rows.index, rows.value)


def _labels(text: bytes, header: Header) -> Array | None:
    if text.translate(None, _LABEL_CHARACTERS):
        return None
    try:
        item = np.array([int(word) for word in text.split(b",")] if text else [], np.int64)
    except (ValueError, OverflowError):
        return None
    return item.astype(np.int32) if not item.size or item.max() < header.labels else None


def parse_line_by_line(block: Block, header: Header) -> Bags:
    """Parse line by line: the reference implementation, with error messages."""
    reader = _Reader(block, header)
    for reader.line, text in block.lines():
        reader.read(text.replace(b"\t", b" "))
    return Bags(
        np.array(reader.label_counts, np.int64),
        np.array(reader.item, np.int32),
        np.array(reader.feature_counts, np.int64),
        np.array(reader.index, np.int32),
        np.array(reader.value, np.float64).astype(np.float32),
    )


@dataclass
class _Reader:
    block: Block
    header: Header
    line: int = 0
    label_counts: list[int] = field(default_factory=list)
    item: list[int] = field(default_factory=list)
    feature_counts: list[int] = field(default_factory=list)
    index: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def read(self, line: bytes) -> None:
        head, _, tail = line.partition(b" ")
        if b":" in head:
            head, tail = b"", line
        labels = [self.number("label", text, self.header.labels) for text in head.split(b",")] if head else []
        features = sorted(self.feature(token) for token in tail.split(b" ") if token)
        for (index, _), (following, _) in pairwise(features):
            if index == following:
                self.block.fail(f"feature {index} is repeated", "expected each feature once per line", self.line)
        self.label_counts.append(len(labels))
        self.item.extend(labels)
        self.feature_counts.append(len(features))
        self.index.extend(index for index, _ in features)
        self.value.extend(value for _, value in features)

    def feature(self, token: bytes) -> tuple[int, float]:
        left, colon, right = token.partition(b":")
        if not colon:
            fix = "expected labels, a space, and index:value index:value …"
            self.block.fail(f"{shown(token)} has no colon", fix, self.line)
        index = self.number("feature", left, self.header.features)
        value = number(right)
        if value is None:
            fix = "expected a finite number in float32 range"
            self.block.fail(f"feature {index} is {shown(right)}", fix, self.line)
        return index, value

    def number(self, what: str, text: bytes, count: int) -> int:
        if not text.isdigit():
            self.block.fail(f"{what} is {shown(text)}", "expected a whole number of at least 0", self.line)
        digits = text.lstrip(b"0") or b"0"
        if len(digits) > _MAX_DIGITS or int(digits) >= count:
            fix = "expected numbers from 0 below the count of the header"
            self.block.fail(f"{what} is {shown(text)}, but the header gives {count:,} {what}s", fix, self.line)
        return int(digits)
