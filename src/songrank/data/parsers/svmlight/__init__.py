"""Rows of svmlight and LETOR text: ``label [qid:ID] index:value ... [# comment]``."""

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from songrank.data.parsers.svmlight.lines import Rows, parse_lines
from songrank.data.parsers.svmlight.vectorised import parse_words

__all__ = ["Rows", "parse_rows"]

PIECE_BYTES = 1 << 20  # fits CPU caches, yet large enough that threads seldom wait for the GIL
MAX_THREADS = 4


def parse_rows(
    data: bytes,
    *,
    file: str,
    line: int = 1,
    first_index: int = 1,
    max_index: int = 10_000_000,
    piece_bytes: int = PIECE_BYTES,
) -> Rows:
    """Parse whole lines, ``piece_bytes`` at a time; ``file`` and ``line``, the number of the first, are for messages.

    >>> rows = parse_rows(b"2 qid:7 1:0.5 3:NULL # a comment", file="train.txt")
    >>> rows.label, rows.query, rows.index, rows.value
    (array([2.], dtype=float32), array([7]), array([1, 3], dtype=int32), array([0.5, nan], dtype=float32))
    """
    max_index = min(max_index, 2**31 - 1)
    pieces = list(_pieces(data, piece_bytes))
    # Freeing a large untouched block makes glibc retain freed memory for the next piece: almost twice as fast.
    np.empty(1 << 24, dtype=np.uint8)

    def parse(piece: tuple[int, int]) -> Rows | None:
        return parse_words(data[slice(*piece)], first_index=first_index, max_index=max_index)

    parts: list[Rows] = []
    has_query: bool | None = None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = min(len(pieces), cores, MAX_THREADS)
    with _swift_turns(), ThreadPoolExecutor(max(threads, 1)) as pool:
        parsed = pool.map(parse, pieces) if threads > 1 else map(parse, pieces)
        for (start, stop), part in zip(pieces, parsed, strict=True):
            if part is None or (part.label.size and has_query not in (None, part.query is not None)):
                at = line + data.count(b"\n", 0, start)
                part = parse_lines(data[start:stop], file, at, first_index, max_index, has_query)
            if part.label.size:
                has_query = part.query is not None
                parts.append(part)
    return _joined(parts)


@contextmanager
def _swift_turns() -> Iterator[None]:
    """Reduce the thread switch interval by a factor of 100, because numpy calls are short here."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 100)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _pieces(data: bytes, size: int) -> Iterator[tuple[int, int]]:
    """Start and stop of pieces of whole lines of about ``size`` bytes."""
    start = 0
    while start < len(data):
        stop = data.rfind(b"\n", start, start + size) + 1 or data.find(b"\n", start + size) + 1 or len(data)
        yield start, stop
        start = stop


def _joined(parts: Sequence[Rows]) -> Rows:
    lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.offsets) for part in parts)])
    return Rows(
        np.concatenate([np.empty(0, np.float32), *(part.label for part in parts)]),
        _joined_queries([part.query for part in parts if part.query is not None]),
        np.cumsum(lengths),
        np.concatenate([np.empty(0, np.int32), *(part.index for part in parts)]),
        np.concatenate([np.empty(0, np.float32), *(part.value for part in parts)]),
    )


def _joined_queries(parts: Sequence[NDArray[Any]]) -> NDArray[Any] | None:
    if any(part.dtype == object for part in parts):
        parts = [part if part.dtype == object else np.array([*map(str, part.tolist())], dtype=object) for part in parts]
    return np.concatenate(parts) if parts else None
