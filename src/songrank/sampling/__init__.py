"""Relevance → Slate, on the device."""

from songrank.sampling.histories import Histories, next_items
from songrank.sampling.sequence_sampler import HistorySlate, SequenceSampler
from songrank.sampling.slate_sampler import SlateSampler

__all__ = ["Histories", "HistorySlate", "SequenceSampler", "SlateSampler", "next_items"]
