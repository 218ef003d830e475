"""Synthetic relevance with the shape of a known data set, long-tailed in users and items."""

import torch

from songrank import Relevance

MOVIELENS_20M = (138_493, 26_744, 20_000_263)


def long_tailed(num_queries: int, num_items: int, num_pairs: int, seed: int = 0) -> Relevance:
    """About ``num_pairs`` distinct pairs: log-normal activity of queries, a power law over items, ratings 1 to 5."""
    generator = torch.Generator().manual_seed(seed)
    activity = torch.randn(num_queries, generator=generator).mul(1.1).exp()
    degree = (activity * (num_pairs / activity.sum())).long().clamp(2, max(num_items // 3, 2))
    degree = (degree * (num_pairs / degree.sum())).long().clamp(2, max(num_items // 3, 2))
    query = torch.repeat_interleave(torch.arange(num_queries), degree)
    tail = torch.rand(query.shape[0], generator=generator, dtype=torch.float64).pow(2.5)
    item = (tail * num_items).long().clamp(max=num_items - 1)
    key = torch.unique(query * num_items + item)
    del query, item, tail
    label = torch.randint(1, 6, key.shape, generator=generator).float()
    return Relevance.from_pairs(key // num_items, key % num_items, label, num_queries=num_queries, num_items=num_items)
