"""Vectorised parser of svmlight text; irregular text is left to the line-by-line parser."""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from songrank.data.parsers.svmlight.decimals import Lengths, Words, decimals, whole_numbers
from songrank.data.parsers.svmlight.lines import ROUNDS_TO_INFINITY, UNKNOWN, Rows, query_ids

_TAB, _NEWLINE, _RETURN, _SPACE, _COLON = 9, 10, 13, 32, 58
_PAD = 32  # words around any character lie within the buffer
_OF_NUMBERS = np.isin(np.arange(256), list(b"0123456789.+-eE\n"))
_LOWER_CASE = np.uint64(0x20202020)
_NULL = np.uint64(int.from_bytes(b"null", "little"))

Places = NDArray[np.intp]


class _Unusual(Exception):  # noqa: N818 - not an error: ``parse_lines`` takes over
    pass


def parse_words(data: bytes, *, first_index: int, max_index: int) -> Rows | None:
    """Parse whole lines, or return None if ``parse_lines`` is needed."""
    if b"#" in data:
        if b"\r" in data:
            data = (data + b"\n").replace(b"\r\n", b"\n")
        text, *others = data.split(b"#")  # several times as fast as a regular expression
        data = text + b"".join([part[part.find(b"\n") :] for part in others if b"\n" in part])
        if b"\r" in data:  # before a comment
            return None
    if b":1.79769313486" in data:
        data = UNKNOWN.sub(b"NULL", data)
    try:
        return _parse(_Text(data), first_index, max_index)
    except (_Unusual, UnicodeDecodeError):
        return None


class _Text:
    """The characters, and the field separators: blanks, newlines and colons.

    ``place`` is the position of each separator (the first is a newline before the text), ``kind`` its character,
    ``colon`` whether it is a colon.
    """

    def __init__(self, data: bytes) -> None:
        size = len(data)
        self.characters = np.full(size + 2 * _PAD, _NEWLINE, dtype=np.uint8)
        self.characters[_PAD : _PAD + size] = np.frombuffer(data, dtype=np.uint8)
        separates = self.characters <= _SPACE
        separates |= self.characters == _COLON
        separates[: _PAD - 1] = separates[_PAD + size + 1 :] = False
        self.place = np.flatnonzero(separates)
        self.kind = self.characters.take(self.place)
        self.colon = self.kind == _COLON
        if not self.is_usual():
            raise _Unusual

    def is_usual(self) -> bool:
        """Whether no field has two colons, there are no other control characters, and carriage returns end lines."""
        if (self.colon[1:] & self.colon[:-1]).any():
            return False
        control = np.flatnonzero((self.kind < _SPACE) & (self.kind != _NEWLINE))
        control = control[self.kind.take(control) != _TAB]
        at, length = self.after(control)
        ends = (self.characters.take(at) == _RETURN) & (length == 0) & (self.kind.take(control + 1) == _NEWLINE)
        return bool(ends.all())

    def after(self, separator: Places) -> tuple[Places, Lengths]:
        """The position of each separator, and the length of the field after it."""
        at = self.place.take(separator)
        return at, self.place.take(separator + 1) - at - 1

    def words(self, after: Places) -> Words:
        """The 24 characters after each position, as [N, 3] words."""
        # Overlapping items of 24 bytes: one pass fetches all three words.
        windows = np.ndarray((self.characters.size - 23,), dtype="V24", buffer=self.characters, strides=(1,))
        return windows[after + 1].view("<u8").reshape(-1, 3)

    def fields(self, after: Places, length: Lengths) -> list[bytes]:
        """The fields as bytes."""
        text = self.characters.tobytes() if after.size else b""
        return [text[at : at + size] for at, size in zip((after + 1).tolist(), length.tolist(), strict=True)]


def _parse(text: _Text, first_index: int, max_index: int) -> Rows:
    row = _labels(text)
    label = _numbers(text, *text.after(row))
    if not (label >= 0).all():
        raise _Unusual
    query = _queries(text, row)
    colon = np.flatnonzero(text.colon)
    at, length = text.after(colon)
    index = _indices(text, at, at - text.place.take(colon - 1) - 1)
    offsets = np.append(np.searchsorted(colon, row), colon.size).astype(np.int64)
    _check_order(index, offsets, first_index, max_index)
    return Rows(label, query, offsets, index, _numbers(text, at, length))


def _labels(text: _Text) -> Places:
    """The newline before each label, the only field of a line without colon."""
    newline = np.flatnonzero(text.kind == _NEWLINE)[:-1]
    filled = text.place.take(newline + 1) - text.place.take(newline) > 1
    follows = text.kind.take(newline + 1)
    if np.where(filled, follows == _COLON, (follows != _NEWLINE) & (follows != _RETURN)).any():
        raise _Unusual  # a line that starts with a feature or with a blank
    row = newline[filled]
    blank = ~text.colon
    alone = np.flatnonzero(blank[1:] & blank[:-1])
    if np.count_nonzero(text.place.take(alone + 1) - text.place.take(alone) > 1) != row.size:
        raise _Unusual
    return row


def _numbers(text: _Text, at: Places, length: Lengths) -> NDArray[np.float32]:
    """The number in the field after each position; most are single digits."""
    digit = text.characters.take(at + 1)
    digit -= ord("0")
    value = digit.astype(np.float32)
    rest = np.flatnonzero((length != 1) | (digit > 9))
    if rest.size == at.size:
        return _longer_numbers(text, at, length)
    if rest.size:
        value[rest] = _longer_numbers(text, at.take(rest), length.take(rest))
    return value


def _longer_numbers(text: _Text, at: Places, length: Lengths) -> NDArray[np.float32]:
    words = text.words(at)
    value, sound = decimals(words, length)
    odd = np.flatnonzero(~sound)
    if odd.size:
        value[odd] = np.nan
        null = (words[odd, 0] & np.uint64(0xFFFFFFFF)) | _LOWER_CASE
        odd = odd[(null != _NULL) | (length[odd] != 4)]
    if odd.size:
        value[odd] = _other_numbers(text, at[odd] + 1, length[odd])
    return value.astype(np.float32)


def _other_numbers(text: _Text, start: Places, length: Lengths) -> NDArray[np.float64]:
    """Numbers with an exponent, a plus sign or many digits, parsed by polars."""
    stop = np.cumsum(length + 1)
    line = stop - length - 1
    copied = text.characters[np.repeat(start - line, length + 1) + np.arange(stop[-1])]
    copied[stop - 1] = _NEWLINE
    if not _OF_NUMBERS.take(copied).all() or (length == 0).any():  # polars also accepts inf and nan
        raise _Unusual
    schema = {"value": pl.Float64}
    table = pl.read_csv(copied.tobytes(), has_header=False, schema=schema, quote_char=None, ignore_errors=True)
    value: NDArray[np.float64] = table["value"].to_numpy()
    if table["value"].null_count() or value.size != start.size or not (np.abs(value) < ROUNDS_TO_INFINITY).all():
        raise _Unusual
    return value


def _indices(text: _Text, at: Places, length: Lengths) -> NDArray[np.int32]:
    """The integer before each position, digit by digit."""
    if not at.size:
        return np.empty(0, dtype=np.int32)
    longest = int(length.max())
    if length.min() < 1 or longest > 8:
        raise _Unusual
    index = np.zeros(at.size, dtype=np.int32)
    for digits in range(1, longest + 1):
        digit = text.characters.take(at - digits)
        digit -= ord("0")
        digit *= length >= digits
        if digit.max() > 9:
            raise _Unusual
        index += digit * np.int32(10 ** (digits - 1))
    return index


def _queries(text: _Text, row: Places) -> NDArray[Any] | None:
    """The query id of each row; its colon is removed from the feature colons."""
    colon = np.flatnonzero(text.colon)
    if not row.size or not colon.size:
        return None
    first = np.searchsorted(colon, row)
    mark = colon.take(first, mode="clip")
    at, length = text.after(mark)
    has_query = (first < np.append(first[1:], colon.size)) & (text.place.take(mark - 1) == at - 4)
    for back, letter in enumerate(b"diq", 1):
        has_query &= text.characters.take(at - back) == letter
    if not has_query.any():
        return None
    if not has_query.all() or (length == 0).any():
        raise _Unusual
    text.colon[mark] = False
    leading_zero = (text.characters.take(at + 1) == ord("0")) & (length > 1)
    if not leading_zero.any() and (length <= 8).all():
        numbers, sound = whole_numbers(text.words(at)[:, 0], length)
        if sound:
            return numbers
    return query_ids([field.decode("utf-8") for field in text.fields(at, length)])


def _check_order(index: NDArray[np.int32], offsets: NDArray[np.int64], first_index: int, max_index: int) -> None:
    if not index.size:
        return
    descends = index[1:] <= index[:-1]
    starts = offsets[1:-1]
    descends[starts[(starts > 0) & (starts < index.size)] - 1] = False
    if descends.any() or index.min() < first_index or index.max() > max_index:
        raise _Unusual
