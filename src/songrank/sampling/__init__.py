"""Samplers: from :class:`songrank.Relevance` to :class:`songrank.Slate`, on the device."""

from songrank.sampling.next_items import last_windows, next_items, target_windows, window_ends
from songrank.sampling.sequence_sampler import HistorySlate, SequenceSampler, window_stride
from songrank.sampling.slate_sampler import SlateSampler

__all__ = [
    "HistorySlate",
    "SequenceSampler",
    "SlateSampler",
    "last_windows",
    "next_items",
    "target_windows",
    "window_ends",
    "window_stride",
]
