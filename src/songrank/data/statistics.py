"""Figures about a prepared data set: what ``songrank data show`` prints, computed once, when it is prepared."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.io.arrays import Pieces

_MAX_BARS = 32
_PIECE = 1 << 20

Arrays = Mapping[str, Array | Pieces]


def statistics(splits: Sequence[Arrays], num_items: int | None, shared_queries: bool = False) -> dict[str, Any]:
    """Counts, list lengths, sparsity and label histogram of some splits together."""
    lengths, relevant = zip(*(_per_query(arrays) for arrays in splits), strict=True)
    per_query = sum(relevant) if shared_queries else np.concatenate(relevant)
    rows, pairs = int(per_query.shape[0]), int(per_query.sum())
    labels = [np.asarray(arrays["label"]) for arrays in splits]
    figures: dict[str, Any] = {"queries": rows, "queries_with_pairs": int(np.count_nonzero(per_query)), "pairs": pairs}
    if num_items is None:
        figures["items"] = sum(int(label.shape[0]) for label in labels)
        figures["list_length"] = _summary(np.concatenate(lengths))
    elif rows and num_items:
        figures["items"] = num_items
        figures["sparsity"] = max(0.0, 1 - pairs / (rows * num_items))  # repeated pairs count, too
    figures["relevant_per_query"] = _summary(per_query[per_query > 0])
    figures["labels"] = label_histogram(labels)
    return figures


def _per_query(arrays: Arrays) -> tuple[Array, Array]:
    """How many entries each query has, and how many of them are relevant."""
    offsets, label = np.asarray(arrays["offsets"]), np.asarray(arrays["label"])
    return np.diff(offsets), np.diff(numpy_offsets(label > 0)[offsets])


def _summary(values: Array) -> dict[str, float]:
    if not values.shape[0]:
        return {"min": 0, "mean": 0.0, "median": 0.0, "max": 0}
    return {
        "min": int(values.min()),
        "mean": round(float(values.mean()), 4),
        "median": float(np.median(values)),
        "max": int(values.max()),
    }


def label_histogram(labels: Sequence[Array]) -> dict[str, int]:
    """How often each label occurs; in equal bins where there are more than a reader wants to see.

    >>> label_histogram([np.array([0.0, 4.5]), np.array([0.0])])
    {'0': 2, '4.5': 1}
    """
    counts: Counter[float] = Counter()
    for piece in (label[at : at + _PIECE] for label in labels for at in range(0, label.shape[0], _PIECE)):
        values, numbers = np.unique(piece, return_counts=True)
        counts.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))
        if len(counts) > _MAX_BARS:
            return _bins(labels)
    return {f"{np.float32(value)!s}".removesuffix(".0"): count for value, count in sorted(counts.items())}


def _bins(labels: Sequence[Array]) -> dict[str, int]:
    low, high = min(float(x.min()) for x in labels if x.size), max(float(x.max()) for x in labels if x.size)
    edges = np.linspace(low, high, 11)
    total = sum(np.histogram(label, bins=edges)[0] for label in labels)
    return {f"{a:g}–{b:g}": int(n) for a, b, n in zip(edges, edges[1:], np.asarray(total), strict=False)}
