"""Shared parts of speed.py: device, repetitions, peak rates, and data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from floors import Ceilings, Work
from shapes import MOVIELENS_20M, long_tailed

from songrank import Relevance

QUERIES, ITEMS, PAIRS = MOVIELENS_20M
ROWS, RELEVANT, IRRELEVANT, DIM = 256, 10, 300, 64


@dataclass
class Machine:
    """Device and repetitions of the measurements."""

    device: torch.device
    ceilings: Ceilings
    rounds: int
    pairs: int = PAIRS
    epochs: tuple[int, int] = (20, 120)
    data: Path | None = None
    movielens_1m: Path | None = None
    sequence_changes: tuple[str, ...] = ()

    @property
    def gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device.type == "cuda"

    def floor(self, work: Work) -> float:
        """Milliseconds."""
        return self.ceilings.milliseconds(work)

    @cached_property
    def relevance(self) -> Relevance:
        """Data in the shape of MovieLens-20M on the device, with fewer pairs on request."""
        return long_tailed(QUERIES, ITEMS, self.pairs).to(self.device)


def even_relevance(queries: int, items: int, fewest: int, most: int) -> Relevance:
    """Pairs whose number does not depend on that of items: each query has one item from each of equal ranges."""
    generator = torch.Generator().manual_seed(0)
    count = torch.randint(fewest, most + 1, (queries,), generator=generator)
    query = torch.repeat_interleave(torch.arange(queries), count)
    place = torch.arange(query.shape[0]) - torch.repeat_interleave(count.cumsum(0) - count, count)
    width = torch.div(items, count, rounding_mode="floor")[query]
    share = torch.rand(query.shape[0], generator=generator, dtype=torch.float64)
    item = place * width + (share * width).long()
    return Relevance.from_pairs(query, item, num_queries=queries, num_items=items)
