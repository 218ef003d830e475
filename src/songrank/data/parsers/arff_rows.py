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
_Entry = tuple[int, str | None]  # attribute index and value, None if missing


@dataclass(frozen=True)
class Column:
    """An attribute as a label, or as one or more features from index ``at``.

    ``codes`` maps values to the relevance of the label, or to the feature that is 1 (0: none); None if numeric. An
    ``ignored`` attribute may have any value.
    """

    name: str
    at: int
    is_label: bool
    codes: dict[str, float] | None
    ignored: bool = False


def feature_codes(values: Sequence[str] | None) -> dict[str, float] | None:
    """The ``codes`` of an attribute with these nominal values, None if numeric.

    >>> feature_codes(["red", "green"])
    {'red': 0.0, 'green': 1.0}
    """
    return {value: float(place) for place, value in enumerate(values or ())} or None


def plan_columns(
    header: ArffHeader, labels: Sequence[int], numbers: Sequence[int], file: str
) -> tuple[list[Column], int]:
    """The column of each attribute, and the number of features; ``numbers`` are the item indices of ``labels``.

    A numeric attribute is one feature. A nominal attribute with k values is k − 1 binary features, all 0 for the first
    value, which sparse rows omit.
    """
    number_of = dict(zip(labels, numbers, strict=True))
    columns: list[Column] = []
    features = 0
    for at, attribute in enumerate(header.attributes):
        if at in number_of:
            columns.append(Column(attribute.name, number_of[at], True, _relevances(attribute, file)))
            continue
        codes = feature_codes(attribute.values)
        columns.append(Column(attribute.name, features, False, codes))
        features += 1 if codes is None else len(codes) - 1
    return columns, features


def _relevances(attribute: Attribute, file: str) -> dict[str, float] | None:
    if attribute.values is None:
        return None
    found = {value: number(value.encode()) for value in attribute.values}
    codes = {value: code for value, code in found.items() if code is not None and code >= 0}
    if len(codes) < len(found):
        what = f"label {shown(attribute.name)} has the values {shown_values(attribute.values)}"
        raise DataError(what, "expected 0 and 1, or other numbers of at least 0", file=file)
    return codes


@dataclass
class ArffRows:
    """Parsed rows: numbers of labels and features per row, and the concatenated labels and features."""

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

    def read(self, block: Block) -> None:
        """Append the rows of a block; comments and blank lines are skipped."""
        for self.line, text in block.texts():
            text = text.strip()
            if text and not text.startswith("%"):
                self._read_row(self._sparse(text) if text.startswith("{") else self._dense(text))

    @cached_property
    def _never_absent(self) -> str | None:
        """A label whose omitted value in sparse rows is not 0."""
        labels = ((column.name, column.codes) for column in self.columns if column.is_label and column.codes)
        return next((name for name, codes in labels if next(iter(codes.values())) != 0), None)

    def _fail(self, what: str, fix: str) -> NoReturn:
        raise DataError(what, fix, file=self.file, line=self.line)

    def _read_row(self, entries: list[_Entry]) -> None:
        labels, features = len(self.item), len(self.index)
        for at, text in entries:
            column = self.columns[at]
            if column.ignored:
                continue
            if text is not None:
                self._add(column, text)
            elif column.is_label:
                what = f"label {shown(column.name)} is missing (?)"
                self._fail(what, "expected 0 or 1; remove rows without labels")
            else:
                self.missing += 1
        self.label_counts.append(len(self.item) - labels)
        self.feature_counts.append(len(self.index) - features)

    def _add(self, column: Column, text: str) -> None:
        """Append a label or a feature unless it is 0."""
        value = number(text.encode()) if column.codes is None else column.codes.get(text)
        if value is None:
            one_of = "a finite number that fits float32"
            if column.codes is not None:
                one_of = f"one of {shown_values(list(column.codes))}"
            self._fail(f"attribute {shown(column.name)} is {shown(text)}", f"expected {one_of}")
        if column.is_label and value < 0:
            self._fail(f"label {shown(column.name)} is {shown(text)}", "expected a relevance of at least 0")
        if value and column.is_label:
            self.item.append(column.at)
            self.relevance.append(value)
        elif value:
            self.index.append(column.at if column.codes is None else column.at + int(value) - 1)
            self.value.append(value if column.codes is None else 1.0)

    def _dense(self, text: str) -> list[_Entry]:
        """All values, in attribute order."""
        entries = self._entries(text)
        if len(entries) != len(self.columns):
            what = f"has {len(entries):,} values for {len(self.columns):,} attributes"
            self._fail(what, "expected one value per attribute, separated by commas")
        return [(at, _value(entry)) for at, entry in enumerate(entries)]

    def _sparse(self, text: str) -> list[_Entry]:
        """The nonzero values, in attribute order."""
        if not text.endswith("}"):
            self._fail(f"ends in {shown(text[-20:])}", "expected } at the end of a sparse row")
        if self._never_absent is not None:
            what = f"sparse rows omit first values, but that of label {shown(self._never_absent)} is not 0"
            self._fail(what, "put 0 first in the braces of @attribute, or use dense rows")
        if not (inside := text[1:-1].strip()):
            return []
        found = sorted((self._sparse_entry(entry) for entry in self._entries(inside)), key=itemgetter(0))
        for (at, _), (following, _) in pairwise(found):
            if at == following:
                self._fail(f"attribute {at} is repeated", "expected each attribute once per row")
        return found

    def _sparse_entry(self, entry: str) -> _Entry:
        left, _, right = entry.replace("\t", " ").partition(" ")
        if not (left.isascii() and left.isdigit()) or not right:
            self._fail(f"{shown(entry)} is not an index and a value", "expected e.g. {0 1,17 0.5}")
        if len(left) > _MAX_DIGITS or int(left) >= len(self.columns):
            what = f"attribute is {shown(left)}, but the file has {len(self.columns):,} attributes"
            self._fail(what, f"expected a number from 0 to {len(self.columns) - 1:,}")
        return int(left), _value(right.strip())

    def _entries(self, text: str) -> list[str]:
        entries = split_entries(text)
        if entries is None:
            self._fail("has unbalanced quotes", "expected matching quotes; escape others with a backslash")
        return entries


def _value(entry: str) -> str | None:
    """The value of an entry; an unquoted question mark is a missing value."""
    return None if entry == "?" else unquote(entry)
