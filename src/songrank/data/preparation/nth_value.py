"""The nth smallest of more values than fit in memory."""

from collections.abc import Callable, Iterable

import numpy as np

from songrank.core.columns import Array

_DIGITS = ((42, 22), (21, 21), (0, 21))  # shift and width: 64 bits in three passes


def sort_keys(values: Array) -> Array:
    """Unsigned integers in the order of int64 or float64 values; −0.0 and 0.0 have the same key.

    >>> np.argsort(sort_keys(np.array([2.5, -1.0, 0.0]))).tolist(), np.argsort(sort_keys(np.array([5, -3]))).tolist()
    ([1, 2, 0], [1, 0])
    """
    top = np.uint64(1 << 63)
    if values.dtype.kind != "f":
        return values.astype(np.int64).view(np.uint64) ^ top
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)
    return np.where(bits & top, ~bits, bits | top)


def nth_key(pieces: Callable[[], Iterable[Array]], number: int) -> tuple[np.uint64, int]:
    """The key with this number, from 0, in the order of all keys, and how many keys are smaller.

    ``pieces`` returns all keys in blocks and is called three times, once per digit of a radix selection.

    >>> nth_key(lambda: [np.array([7, 3], np.uint64), np.array([3, 9], np.uint64)], 2)
    (np.uint64(7), 2)
    """
    prefix, below = 0, 0
    for shift, width in _DIGITS:
        counts = np.zeros(1 << width, np.int64)
        for piece in pieces():
            found = piece if shift + width == 64 else piece[piece >> np.uint64(shift + width) == prefix]
            digits = (found >> np.uint64(shift)) & np.uint64((1 << width) - 1)
            counts += np.bincount(digits.astype(np.int64), minlength=1 << width)
        ends = np.cumsum(counts)
        digit = int(np.searchsorted(ends, number - below, side="right"))
        below += int(ends[digit - 1]) if digit else 0
        prefix = prefix << width | digit
    return np.uint64(prefix), below
