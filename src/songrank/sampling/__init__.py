"""Relevance → Slate, on the device."""

from songrank.sampling.slate_sampler import SlateSampler

__all__ = ["SlateSampler"]
