"""Packed histories: positions of histories of different lengths one after the other, in bins of few widths.

Padding histories [U, T] to the longest makes most of the work of a step padding. Layers that treat positions
independently read packed positions as one list; attention reads the bins of each group as a table.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from songrank.core.csr import segment_rows


class Group(NamedTuple):
    """Successive bins of the same width."""

    bins: int
    width: int

    @property
    def positions(self) -> int:
        """Number of positions."""
        return self.bins * self.width


@dataclass(frozen=True, eq=False)
class Packing:
    """The places of U histories among T positions.

    Args:
        start: [U], the first position of each history.
        history: [T], the history at each position, −1 for padding.
        groups: the bins, in order.
        shared: whether a bin may hold several histories; otherwise each starts at the beginning of its own.

    >>> packing = pack_by_length(torch.tensor([2, 1, 2]))
    >>> packing.start.tolist(), packing.history.tolist(), packing.groups
    ([1, 0, 3], [1, 0, 0, 2, 2], (Group(bins=1, width=1), Group(bins=2, width=2)))
    """

    start: Tensor
    history: Tensor
    groups: tuple[Group, ...]
    shared: bool


def pack_by_length(length: Tensor) -> Packing:
    """Each history in its own bin, together with those of about the same length: at most a quarter is padding.

    ``length`` [U] is the number of positions of each history, at least 1.
    """
    exponent = torch.frexp(length.float()).exponent
    unit = 2 ** (exponent.long() - 3).clamp_min(0)
    kind = (length + unit - 1) // unit * unit
    order = length.argsort(stable=True)
    bins = kind[order].unique_consecutive(return_counts=True)[1]  # type: ignore[no-untyped-call]
    last = bins.cumsum(0) - 1
    widths = length[order][last]  # the longest of each kind
    width = widths.repeat_interleave(bins)
    start = torch.empty_like(length)
    start[order] = width.cumsum(0) - width
    groups = tuple(Group(count, wide) for count, wide in zip(bins.tolist(), widths.tolist(), strict=True))
    return Packing(start, _history(length, start, sum(group.positions for group in groups)), groups, shared=False)


def pack_in_bins(length: Tensor, width: int, fewest: int = 0) -> Packing:
    """Several histories per bin of this ``width``, so that few sizes occur: one group of at least ``fewest`` bins.

    >>> packing = pack_in_bins(torch.tensor([2, 1, 3]), width=4)
    >>> packing.history.tolist(), packing.groups
    ([2, 2, 2, 1, 0, 0, -1, -1], (Group(bins=2, width=4),))
    """
    order = length.argsort(descending=True, stable=True).tolist()
    sizes = length.tolist()
    start, bins = [0] * len(sizes), 0
    first, last = 0, len(order) - 1
    while first <= last:
        room, at = width, bins * width
        while first <= last:  # the longest that fits, otherwise the shortest
            if sizes[order[first]] <= room:
                which, first = order[first], first + 1
            elif sizes[order[last]] <= room:
                which, last = order[last], last - 1
            else:
                break
            start[which] = at
            at, room = at + sizes[which], room - sizes[which]
        bins += 1
    bins = fewest if bins <= fewest else rounded_up(bins)
    starts = torch.tensor(start, dtype=torch.int64)
    return Packing(starts, _history(length, starts, bins * width), (Group(bins, width),), shared=True)


def rounded_up(size: int) -> int:
    """The next of eight sizes per factor of 2, so that few shapes occur and at most an eighth is padding.

    >>> [rounded_up(size) for size in (1, 15, 17, 2200)]
    [1, 15, 18, 2304]
    """
    unit = 2 ** max((size - 1).bit_length() - 4, 0) if size > 1 else 1
    return -(-size // unit) * unit


def _history(length: Tensor, start: Tensor, positions: int) -> Tensor:
    row, at = segment_rows(length, start)
    found = torch.full((positions,), -1, dtype=torch.int64)
    found[at] = row
    return found
