"""Metrics by query size: means over bins of about equal count, with confidence intervals."""

from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.data import Dataset, ListSplit
from songrank.metrics.comparison import paired_difference


@dataclass(frozen=True)
class Bin:
    """Queries with sizes from ``first`` to ``last``: mean value and 95 % interval, which is NaN for one query."""

    first: int
    last: int
    queries: int
    mean: float
    low: float
    high: float


def size_ranges(sizes: Tensor, count: int) -> list[tuple[int, int]]:
    """At most ``count`` ranges of sizes with about equal numbers of queries; equal sizes share a range."""
    if not len(sizes):
        return []
    ordered = sizes.sort().values
    ends = sorted({int(ordered[-(-len(sizes) * part // count) - 1]) for part in range(1, count + 1)})
    starts = [int(ordered[0]), *(int(ordered[ordered > end][0]) for end in ends[:-1])]
    return list(zip(starts, ends, strict=True))


def bin_values(values: Tensor, sizes: Tensor, count: int = 8) -> list[Bin]:
    """Means of values [seeds, queries] by query sizes [queries] with paired intervals to 0; NaN values are ignored."""
    counted = ~values[0].isnan()
    values, sizes = values[:, counted], sizes[counted]
    bins = []
    for first, last in size_ranges(sizes, count):
        inside = values[:, (sizes >= first) & (sizes <= last)]
        found = paired_difference(inside, torch.zeros_like(inside[:1]), level=0.95)
        bins.append(Bin(first, last, inside.shape[1], found.mean, found.low, found.high))
    return bins


def query_sizes(dataset: Dataset, split: str) -> tuple[str, Tensor]:
    """The name of the query size in this task, and the size of each query of a split."""
    part = dataset[split]
    if isinstance(part, ListSplit):
        return "list length", part.lengths
    if dataset.info["shared_queries"] and "train" in dataset:
        return "number of training items", dataset.relevance("train").num_relevant
    return "number of relevant labels", dataset.relevance(split).num_relevant
