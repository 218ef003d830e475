"""How a metric depends on a query's size: means over bins of about equally many queries, with intervals."""

from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.data import Dataset, ListSplit
from songrank.metrics.comparison import paired_difference

BINS = 8
LEVEL = 0.95


@dataclass(frozen=True)
class Bin:
    """The queries with sizes from ``first`` to ``last``, and the mean of their values with its 95 % interval."""

    first: int
    last: int
    queries: int
    mean: float
    low: float
    """NaN with one query, as is ``high``."""
    high: float


def size_ranges(sizes: Tensor, count: int = BINS) -> list[tuple[int, int]]:
    """At most ``count`` ranges of sizes that hold about equally many queries; equal sizes are never parted.

    >>> size_ranges(torch.tensor([1, 1, 1, 2, 3, 9]), count=3)
    [(1, 1), (2, 2), (3, 9)]
    """
    ordered = sizes.sort().values
    total = ordered.shape[0]
    if total == 0:
        return []
    ends = sorted({int(ordered[-(-total * part // count) - 1]) for part in range(1, count + 1)})
    starts = [int(ordered[0]), *(int(ordered[ordered > end][0]) for end in ends[:-1])]
    return list(zip(starts, ends, strict=True))


def bin_values(values: Tensor, sizes: Tensor, count: int = BINS) -> list[Bin]:
    """Means of values [seeds, queries] by the queries' sizes [queries]; queries that are NaN do not count.

    The interval is that of :mod:`songrank.metrics.comparison`, over queries and seeds, for the difference to 0.

    >>> bins = bin_values(torch.tensor([[0.0, 0.5, 1.0, torch.nan]]), torch.tensor([3, 3, 8, 8]), count=2)
    >>> [(found.first, found.last, found.queries, found.mean) for found in bins]
    [(3, 3, 2, 0.25), (8, 8, 1, 1.0)]
    """
    counted = ~values[0].isnan()
    values, sizes = values[:, counted], sizes[counted]
    bins = []
    for first, last in size_ranges(sizes, count):
        inside = values[:, (sizes >= first) & (sizes <= last)]
        found = paired_difference(inside, torch.zeros_like(inside[:1]), level=LEVEL)
        bins.append(Bin(first, last, inside.shape[1], found.mean, found.low, found.high))
    return bins


def query_sizes(dataset: Dataset, split: str) -> tuple[str, Tensor]:
    """What the size of a query is in this task, in words, and the size of each query of a split.

    >>> import tempfile
    >>> from songrank.data import prepare
    >>> dataset = prepare("synthetic", None, tempfile.mkdtemp() + "/demo", queries=30, items=40, pairs=300)
    >>> words, sizes = query_sizes(dataset, "test")
    >>> words, int(sizes.sum()) == dataset["train"].num_pairs
    ('number of training items', True)
    """
    part = dataset[split]
    if isinstance(part, ListSplit):
        return "list length", part.lengths
    if dataset.info["shared_queries"] and "train" in dataset:
        return "number of training items", dataset.relevance("train").num_relevant
    return "number of relevant labels", dataset.relevance(split).num_relevant
