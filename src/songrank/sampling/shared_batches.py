"""Batches that several processes share: each draws the rows of its own queries."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from songrank.core.slate import Slate

_SPREAD = 5.0  # standard deviations; fewer than one of a million batches have more rows


@dataclass(frozen=True, eq=False)
class SharedBatches:
    """The queries of all processes, and the range of those that this process draws.

    All processes visit the same queries in the same order; the rows of a batch on all processes together are those of
    the batch on a single process.

    Args:
        queries: ids of all queries with a relevant item, ascending.
        own: the first query of this process, and the one after its last.

    >>> shared = SharedBatches(torch.arange(6), (0, 3))
    >>> mine, bounds = shared.split(torch.tensor([4, 1, 5, 3, 2, 0]), size=2)
    >>> mine.tolist(), bounds
    ([1, 2, 0], [0, 1, 1, 3])
    """

    queries: Tensor
    own: tuple[int, int]

    def split(self, order: Tensor, size: int) -> tuple[Tensor, list[int]]:
        """The queries of an epoch that this process draws, in order, and their bounds by batch of ``size``."""
        first, last = self.own
        here = (order >= first) & (order < last)
        ends = torch.nn.functional.pad(here.cumsum(0), (1, 0))
        places = torch.arange(0, order.shape[0] + size, size, device=order.device).clamp(max=order.shape[0])
        return order[here], ends[places].tolist()

    def width(self, size: int) -> int:
        """The number of rows that suffice on this process for nearly all batches of ``size``, in random order.

        >>> SharedBatches(torch.arange(4000), (0, 1000)).width(256)
        99
        """
        total, (first, last) = self.queries.shape[0], self.own
        own = int(((self.queries >= first) & (self.queries < last)).sum())
        size, share = min(size, total), own / max(total, 1)
        spread = _SPREAD * math.sqrt(size * share * (1.0 - share))
        return max(1, min(size, own, math.ceil(size * share + spread)))


def muted(slate: Slate) -> Slate:
    """The slate with all rows as padding: no weight in a mean, no memory rows, no gradient.

    >>> slate = Slate.from_batch(torch.tensor([[1.0, 0.0]]), torch.tensor([3]), torch.tensor([[7, -1]]))
    >>> muted(slate).rows_present, muted(slate).pair
    (tensor([False]), tensor([[-1, -1]]))
    """
    pair = None if slate.pair is None else torch.full_like(slate.pair, -1)
    mask = torch.zeros_like(slate.label, dtype=torch.bool)
    weight = torch.zeros(slate.query.shape[0], device=slate.label.device)
    return replace(slate, mask=mask, pair=pair, row_weight=weight, whole=False)
