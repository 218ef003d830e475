"""Rows of ARFF files, dense or sparse, as sparse features and labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import NoReturn

from songrank.core.errors import DataError, shown
from songrank.data.parsers.arff_header import ArffHeader, Attribute, shown_values, split_entries, unquote
from songrank.data.parsers.svmlight.lines import number
from songrank.io.source import Block

_MAX_DIGITS = 18
_Entry = tuple[int, str | None]  # number of an attribute, and its value unless that is missing


@dataclass(frozen=True)
class Column:
    """What becomes of the values of an attribute.

    Attributes:
        name: of the attribute.
        at: number of the label, or of the attribute's first feature.
        is_label: which of the two.
        codes: the label's relevance, or which feature becomes 1 (0: none), by value; None if values are numbers.

    """

    name: str
    at: int
    is_label: bool
    codes: dict[str, float] | None


def plan_columns(
    header: ArffHeader, labels: Sequence[int], numbers: Sequence[int], file: str
) -> tuple[list[Column], int]:
    """What becomes of each attribute, and how many features there are.

    A numeric attribute is one feature. One of k values is k − 1 features that are 0 or 1: the first value, which sparse
    rows leave out, is that in which all of them are 0.

    Args:
        header: its attributes.
        labels: which of them are labels.
        numbers: the number of each label in the catalogue.
        file: for messages.

    """
    number_of = dict(zip(labels, numbers, strict=True))
    columns: list[Column] = []
    features = 0
    for at, attribute in enumerate(header.attributes):
        if at in number_of:
            columns.append(Column(attribute.name, number_of[at], True, _relevances(attribute, file)))
        elif attribute.values is None:
            columns.append(Column(attribute.name, features, False, None))
            features += 1
        else:
            codes = {value: float(place) for place, value in enumerate(attribute.values)}
            columns.append(Column(attribute.name, features, False, codes))
            features += len(codes) - 1
    return columns, features


def _relevances(attribute: Attribute, file: str) -> dict[str, float] | None:
    if attribute.values is None:
        return None
    codes = {value: number(value.encode()) for value in attribute.values}
    if any(code is None or code < 0 for code in codes.values()):
        what = f"label {shown(attribute.name)} has the values {shown_values(attribute.values)}"
        raise DataError(what, "expected 0 and 1, or other numbers from 0 on", file=file)
    return {value: code for value, code in codes.items() if code is not None}


def _value(entry: str) -> str | None:
    """What an entry says; a question mark says that nothing is known, unless it is in quotes."""
    return None if entry == "?" else unquote(entry)


@dataclass
class ArffRows:
    """Rows of a block, one after the other."""

    columns: Sequence[Column]
    file: str
    line: int = 0
    missing: int = 0
    label_counts: list[int] = field(default_factory=list)
    item: list[int] = field(default_factory=list)
    relevance: list[float] = field(default_factory=list)
    feature_counts: list[int] = field(default_factory=list)
    index: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    @cached_property
    def never_absent(self) -> str | None:
        """A label that a sparse row would have by not naming it."""
        for column in self.columns:
            if column.is_label and column.codes and next(iter(column.codes.values())) != 0:
                return column.name
        return None

    def read(self, block: Block) -> None:
        """Take in the rows of a block; comments and blank lines are skipped."""
        for self.line, text in enumerate(block.data.decode("utf-8").split("\n"), block.line):
            text = text.strip()
            if text and not text.startswith("%"):
                self.read_row(self.sparse(text) if text.startswith("{") else self.dense(text))

    def fail(self, what: str, fix: str) -> NoReturn:
        """Raise, naming the line that is being read."""
        raise DataError(what, fix, file=self.file, line=self.line)

    def read_row(self, entries: list[_Entry]) -> None:
        """Take in a row: attributes and their values."""
        labels, features = len(self.item), len(self.index)
        for at, text in entries:
            column = self.columns[at]
            if text is None:
                self.skip_missing(column)
            elif column.is_label:
                self.add_label(column, text)
            else:
                self.add_feature(column, text)
        self.label_counts.append(len(self.item) - labels)
        self.feature_counts.append(len(self.index) - features)

    def dense(self, text: str) -> list[_Entry]:
        """All values, in order of the attributes."""
        entries = self.entries(text)
        if len(entries) != len(self.columns):
            what = f"has {len(entries):,} values for {len(self.columns):,} attributes"
            self.fail(what, "expected one value an attribute, separated by commas")
        return [(at, _value(entry)) for at, entry in enumerate(entries)]

    def sparse(self, text: str) -> list[_Entry]:
        """Those values that are not 0, in order of the attributes."""
        if not text.endswith("}"):
            self.fail(f"ends in {shown(text[-20:])}", "expected } at the end of a sparse row")
        if self.never_absent is not None:
            what = f"sparse rows leave out first values, and that of label {shown(self.never_absent)} is not 0"
            self.fail(what, "write 0 first in the braces of its @attribute, or write dense rows")
        if not (inside := text[1:-1].strip()):
            return []
        found = sorted((self.sparse_entry(entry) for entry in self.entries(inside)), key=itemgetter(0))
        for (at, _), (following, _) in pairwise(found):
            if at == following:
                self.fail(f"attribute {at} is repeated", "write each attribute once a row")
        return found

    def sparse_entry(self, entry: str) -> _Entry:
        """``attribute value``."""
        left, _, right = entry.replace("\t", " ").partition(" ")
        if not (left.isascii() and left.isdigit()) or not right:
            self.fail(f"{shown(entry)} is not an attribute and its value", "expected e.g. {0 1,17 0.5}")
        if len(left) > _MAX_DIGITS or int(left) >= len(self.columns):
            what = f"attribute is {shown(left)}, but the file has {len(self.columns):,}"
            self.fail(what, f"expected a number from 0 to {len(self.columns) - 1:,}")
        return int(left), _value(right.strip())

    def entries(self, text: str) -> list[str]:
        """What stands between commas."""
        entries = split_entries(text)
        if entries is None:
            self.fail("has a quote that does not close", "expected quotes in pairs, or a backslash before one")
        return entries

    def skip_missing(self, column: Column) -> None:
        """A feature that is not known counts as 0; a label must be known."""
        if column.is_label:
            self.fail(f"label {shown(column.name)} is missing (?)", "expected 0 or 1: leave out rows without labels")
        self.missing += 1

    def add_label(self, column: Column, text: str) -> None:
        """Keep a label if it is relevant."""
        relevance = self.coded(column, text)
        if relevance < 0:
            self.fail(f"label {shown(column.name)} is {shown(text)}", "expected a relevance of at least 0")
        if relevance > 0:
            self.item.append(column.at)
            self.relevance.append(relevance)

    def add_feature(self, column: Column, text: str) -> None:
        """Keep a feature if it is not 0."""
        value = self.coded(column, text)
        if value == 0:
            return
        if column.codes is None:
            self.index.append(column.at)
            self.value.append(value)
        else:
            self.index.append(column.at + int(value) - 1)
            self.value.append(1.0)

    def coded(self, column: Column, text: str) -> float:
        """The number that a value stands for."""
        value = number(text.encode()) if column.codes is None else column.codes.get(text)
        if value is None:
            fix = "expected a finite number that fits float32"
            if column.codes is not None:
                fix = f"expected one of {shown_values(list(column.codes))}"
            self.fail(f"attribute {shown(column.name)} is {shown(text)}", fix)
        return value
