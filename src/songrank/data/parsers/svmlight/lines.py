"""Line-by-line parser of svmlight text: the reference implementation, with error messages."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from songrank.core.errors import DataError, shown

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INDEX = re.compile(rb"[0-9]+")
ROUNDS_TO_INFINITY = 2.0**128 - 2.0**103  # as float32: half a step above the largest one
UNKNOWN = re.compile(rb"(?<=:)1\.79769313486[0-9]*[eE]\+?308(?![^\s#])")  # largest float64: Istella's NULL


@dataclass(frozen=True)
class Rows:
    """Lines of an svmlight file: features ``index[offsets[i]:offsets[i + 1]]``, as in the file, belong to row ``i``.

    ``query`` is int64 if all ids are canonical integers, else str objects, None without ``qid:``; ``value`` is
    ``np.float32(float(text))``, NaN for ``NULL`` and for the largest float64 (Istella).
    """

    label: NDArray[np.float32]
    query: NDArray[Any] | None
    offsets: NDArray[np.int64]
    index: NDArray[np.int32]
    value: NDArray[np.float32]


def number(text: bytes) -> float | None:
    """Parse a number, before rounding to float32; None if it is invalid or not finite."""
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if abs(value) < ROUNDS_TO_INFINITY else None


def query_ids(texts: Sequence[str]) -> NDArray[Any]:
    """Ids as int64 if all are canonical integers, else as strings."""
    if all(map(_CANONICAL.fullmatch, texts)):
        numbers = list(map(int, texts))
        if min(numbers, default=0) >= -(2**63) and max(numbers, default=0) < 2**63:
            return np.array(numbers, dtype=np.int64)
    return np.array(texts, dtype=object)


def parse_lines(
    data: bytes, file: str, line: int, first_index: int, max_index: int, has_query: bool | None = None
) -> Rows:
    """Parse line by line; ``has_query``: whether previous lines have ``qid:``, None if there are none."""
    reader = _Reader(file, first_index, max_index, has_query)
    for reader.line, text in enumerate(data.split(b"\n"), line):
        reader.read(text.removesuffix(b"\r").partition(b"#")[0])
    return Rows(
        np.array(reader.label, dtype=np.float64).astype(np.float32),
        query_ids(reader.query) if reader.query else None,
        np.array(reader.offsets, dtype=np.int64),
        np.array(reader.index, dtype=np.int32),
        np.array(reader.value, dtype=np.float64).astype(np.float32),
    )


@dataclass
class _Reader:
    file: str
    first_index: int
    max_index: int
    has_query: bool | None
    line: int = 0
    label: list[float] = field(default_factory=list)
    query: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=lambda: [0])
    index: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def fail(self, what: str, fix: str) -> NoReturn:
        raise DataError(what, fix, file=self.file, line=self.line)

    def read(self, text: bytes) -> None:
        tokens = [token for token in text.replace(b"\t", b" ").split(b" ") if token]
        if not tokens:
            return
        self.label.append(self.read_label(tokens[0]))
        with_query = len(tokens) > 1 and tokens[1].startswith(b"qid:")
        features = tokens[1 + with_query :]
        for token in features:
            if token.startswith(b"qid:"):
                self.fail(f"{shown(token)} is not the second field", "expected one qid: per line, after the label")
        self.read_query(tokens[1] if with_query else None)
        last = -1
        for token in features:
            last = self.read_feature(token, last)
        self.offsets.append(len(self.index))

    def read_label(self, token: bytes) -> float:
        label = number(token)
        fix = "expected a relevance of at least 0; map negative labels to 0"
        if label is None:
            fix = "start the line with it" if b":" in token else "write it as a plain decimal, e.g. 0 or 2"
            fix = f"expected a finite number; {fix}"
        if label is None or label < 0:
            self.fail(f"label is {shown(token)}", fix)
        return label

    def read_query(self, token: bytes | None) -> None:
        if token is None:
            if self.has_query:
                self.fail("has no qid:, unlike previous lines", "write 'qid:ID' after the label of every line")
            self.has_query = False
            return
        if self.has_query is False:
            self.fail(f"has {shown(token)}, unlike previous lines", "expected qid: in all lines or none")
        self.has_query = True
        if token == b"qid:":
            self.fail("qid: is empty", "expected a query id after the colon, without a space")
        try:
            self.query.append(token[4:].decode("utf-8"))
        except UnicodeDecodeError:
            self.fail(f"query id is {shown(token[4:])}", "expected UTF-8; convert the file, e.g. from latin-1")

    def read_feature(self, token: bytes, last: int) -> int:
        left, colon, right = token.partition(b":")
        if not colon:
            self.fail(f"{shown(token)} has no colon", "expected index:value; start comments with #")
        index = self.read_index(left, token)
        if index == last:
            self.fail(f"feature {index} is repeated", "expected each feature once per line")
        if index < last:
            self.fail(f"feature {index} follows feature {last}", "sort the features of a line by index")
        self.index.append(index)
        self.value.append(self.read_value(right, index))
        return index

    def read_index(self, text: bytes, token: bytes) -> int:
        digits = text.lstrip(b"0") or b"0"
        if not _INDEX.fullmatch(text):
            fix = f"expected a whole number of at least {self.first_index}"
        elif len(digits) > 18 or int(digits) > self.max_index:
            fix = f"expected at most {self.max_index:,}; renumber the features, or increase max_index"
        elif int(digits) < self.first_index:
            fix = f"expected at least {self.first_index}; set first_index=0 if features start at 0"
        else:
            return int(digits)
        self.fail(f"feature index is {shown(text)} in {shown(token)}", fix)

    def read_value(self, text: bytes, index: int) -> float:
        value = number(text)
        if value is not None:
            return value
        if text.upper() == b"NULL" or UNKNOWN.fullmatch(b":" + text, 1):
            return math.nan
        self.fail(f"feature {index} is {shown(text)}", "expected a finite number in float32 range, or NULL if missing")
