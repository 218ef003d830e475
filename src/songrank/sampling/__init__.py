"""Samplers: from :class:`songrank.Relevance` to :class:`songrank.Slate`, on the device."""

from songrank.sampling.next_items import last_windows, next_items
from songrank.sampling.sequence_sampler import HistorySlate, SequenceSampler
from songrank.sampling.shared_batches import SharedBatches
from songrank.sampling.slate_sampler import SlateSampler

__all__ = ["HistorySlate", "SequenceSampler", "SharedBatches", "SlateSampler", "last_windows", "next_items"]
