"""Relevance → Slate, on the device."""

from songrank.sampling.sequence_sampler import Histories, SequenceSampler, next_items
from songrank.sampling.slate_sampler import SlateSampler

__all__ = ["Histories", "SequenceSampler", "SlateSampler", "next_items"]
