"""Rows of svmlight text, all lines of a piece at once; gives up on whatever it does not fully understand."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from songrank.data.parsers.svmlight.lines import ROUNDS_TO_INFINITY, UNKNOWN, Rows, query_ids

_NEWLINE, _RETURN, _SPACE, _COLON = 10, 13, 32, 58
_SEPARATORS = b"\t\n\r :"
_ONE_A_LINE = bytes.maketrans(_SEPARATORS, b"\n" * len(_SEPARATORS))

Places = NDArray[np.intp]
Numbers = NDArray[np.float32]


class _Unusual(Exception):  # noqa: N818 - not an error: the careful parser takes over
    pass


def parse_words(data: bytes, *, first_index: int, max_index: int) -> Rows | None:
    """Parse whole lines, or return None when there is anything that only ``parse_lines`` knows how to judge."""
    if b"#" in data:
        if b"\r" in data:
            data = (data + b"\n").replace(b"\r\n", b"\n")
        text, *others = data.split(b"#")  # several times as fast as a regular expression
        data = text + b"".join([part[part.find(b"\n") :] for part in others if b"\n" in part])
        if b"\r" in data:  # one that stood before a comment
            return None
    if b":1.79769313486" in data:
        data = UNKNOWN.sub(b"NULL", data)
    try:
        return _parse(_Text(b"\n" + data + b"\n"), first_index, max_index)
    except (_Unusual, UnicodeDecodeError, pl.exceptions.PolarsError):
        return None


class _Text:
    """Fields between separators: blanks, newlines and colons. Field k follows separator k."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.characters = np.frombuffer(data, np.uint8)
        self.place = np.flatnonzero((self.characters <= _SPACE) | (self.characters == _COLON))
        self.kind = self.characters.take(self.place)
        self.colon = self.kind == _COLON
        self.length = np.diff(self.place) - 1
        returns = np.flatnonzero(self.kind == _RETURN)
        if (
            (self.colon[1:] & self.colon[:-1]).any()  # a field with two colons
            or not np.isin(np.unique(self.kind), list(_SEPARATORS)).all()
            or self.length.take(returns).any()  # a carriage return that does not end a line
            or (self.kind.take(returns + 1) != _NEWLINE).any()
        ):
            raise _Unusual
        fields = data[1:].translate(_ONE_A_LINE)
        options: dict[str, Any] = {"has_header": False, "quote_char": None, "separator": "\x01", "ignore_errors": True}
        table = pl.read_csv(fields, schema={"number": pl.Float64}, **options)
        self.number = table["number"].to_numpy()
        if self.number.size != self.length.size:
            raise _Unusual

    def texts(self, fields: Places) -> list[str]:
        """The fields themselves, one by one."""
        start = (self.place.take(fields) + 1).tolist()
        return [
            self.data[at : at + size].decode("utf-8")
            for at, size in zip(start, self.length.take(fields).tolist(), strict=True)
        ]


def _parse(text: _Text, first_index: int, max_index: int) -> Rows:
    row = _labels(text)
    label = _numbers(text, row)
    if not (label >= 0).all():
        raise _Unusual
    query = _queries(text, row)
    colon = np.flatnonzero(text.colon)
    index = _whole_numbers(text, colon - 1)
    offsets = np.append(np.searchsorted(colon, row), colon.size).astype(np.int64)
    _check_order(index, offsets, first_index, max_index)
    return Rows(label, query, offsets, index.astype(np.int32), _numbers(text, colon))


def _labels(text: _Text) -> Places:
    """The newline before each label: every line is empty, or starts with its only field that has no colon."""
    newline = np.flatnonzero(text.kind == _NEWLINE)[:-1]
    filled = text.length.take(newline) > 0
    follows = text.kind.take(newline + 1)
    if np.where(filled, follows == _COLON, (follows != _NEWLINE) & (follows != _RETURN)).any():
        raise _Unusual  # a line that starts with a feature or with a blank
    row = newline[filled]
    blank = ~text.colon
    if np.count_nonzero(blank[1:] & blank[:-1] & (text.length > 0)) != row.size:
        raise _Unusual
    return row


def _numbers(text: _Text, fields: Places) -> Numbers:
    """Finite float32 numbers, NaN for NULL."""
    value = text.number.take(fields)
    unknown = np.isnan(value)
    if not (unknown | (np.abs(value) < ROUNDS_TO_INFINITY)).all():
        raise _Unusual
    if any(word.upper() != "NULL" for word in text.texts(fields[unknown])):
        raise _Unusual
    return value.astype(np.float32)


def _whole_numbers(text: _Text, fields: Places) -> NDArray[np.int64]:
    """Numbers of one to eight digits."""
    length, end = text.length.take(fields), text.place.take(fields + 1)
    if not fields.size:
        return np.empty(0, np.int64)
    if length.min() < 1 or length.max() > 8:
        raise _Unusual
    whole = np.zeros(fields.size, np.int32)
    for digits in range(1, int(length.max()) + 1):
        digit = text.characters.take(end - digits, mode="clip") - np.uint8(ord("0"))
        digit *= length >= digits
        if digit.max() > 9:
            raise _Unusual
        whole += digit * np.int32(10 ** (digits - 1))
    return whole.astype(np.int64)


def _queries(text: _Text, row: Places) -> NDArray[Any] | None:
    """The id of each row's query; its colon is taken away from those of features."""
    colon = np.flatnonzero(text.colon)
    if not row.size or not colon.size:
        return None
    first = np.searchsorted(colon, row)
    mark = colon.take(first, mode="clip")
    at = text.place.take(mark)
    has_query = (first < np.append(first[1:], colon.size)) & (text.length.take(mark - 1) == 3)
    for back, letter in enumerate(b"diq", 1):
        has_query &= text.characters.take(at - back) == letter
    if not has_query.any():
        return None
    if not has_query.all() or not text.length.take(mark).all():
        raise _Unusual
    text.colon[mark] = False
    leading_zero = (text.characters.take(at + 1) == ord("0")) & (text.length.take(mark) > 1)
    try:
        return query_ids(text.texts(mark)) if leading_zero.any() else _whole_numbers(text, mark)
    except _Unusual:
        return query_ids(text.texts(mark))


def _check_order(index: NDArray[np.int64], offsets: NDArray[np.int64], first_index: int, max_index: int) -> None:
    if not index.size:
        return
    descends = index[1:] <= index[:-1]
    starts = offsets[1:-1]
    descends[starts[(starts > 0) & (starts < index.size)] - 1] = False
    if descends.any() or index.min() < first_index or index.max() > max_index:
        raise _Unusual
