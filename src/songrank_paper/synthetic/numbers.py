"""Random numbers that depend only on their purpose, and long-tailed counts with a given sum."""

import zlib

import numpy as np

from songrank.core.columns import Array

BLOCK = 512  # queries per random stream; it affects the data, so it is not an option


def stream(seed: int, purpose: str, block: int = 0) -> np.random.Generator:
    """Random numbers of a purpose and block, independent of other draws.

    >>> bool(stream(0, "a").random() == stream(0, "a").random())
    True
    >>> bool(stream(0, "a", block=1).random() == stream(0, "a").random())
    False
    """
    key = np.array([seed, zlib.crc32(purpose.encode())], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, 0, block], np.uint64)))


def num_blocks(rows: int) -> int:
    """The number of blocks of ``rows`` queries."""
    return -(-rows // BLOCK)


def long_tailed_counts(total: int, rows: int, fewest: int, most: int, rng: np.random.Generator, spread: float) -> Array:
    """``rows`` integers from ``fewest`` to ``most``, log-normal above ``fewest``, with the exact sum ``total``.

    >>> counts = long_tailed_counts(1000, 20, fewest=5, most=200, rng=stream(0, "counts"), spread=1.4)
    >>> int(counts.sum()), int(counts.min()) >= 5, int(counts.max()) <= 200
    (1000, True, True)
    """
    weight, room, extra = np.exp(spread * rng.standard_normal(rows)), most - fewest, total - rows * fewest
    if not 0 <= extra <= rows * room:
        raise ValueError(f"total is {total}; expected from {rows * fewest} to {rows * most}")
    # Bisection for the largest factor with which the weights, clipped at ``room``, sum to at most ``extra``.
    low, high = 0.0, room / float(weight.min())
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(weight * middle, room).sum() < extra else (low, middle)
    exact = np.minimum(weight * low, room)
    counts = np.floor(exact).astype(np.int64)
    while (short := extra - int(counts.sum())) > 0:
        free = np.flatnonzero(counts < room)
        nearest = free[np.argsort((counts - exact)[free], kind="stable")][:short]
        counts[nearest] += 1
    return counts + fewest
