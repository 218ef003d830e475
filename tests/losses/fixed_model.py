"""Helpers that tests of several modules share."""

import torch

from songrank import Relevance

ITEMS = 120


def task(num_relevant, seed=0, copies=1):
    """Queries that all have the same list, and its scores; relevant items tend to score higher."""
    generator = torch.Generator().manual_seed(seed)
    item = torch.randperm(ITEMS, generator=generator)[:num_relevant].sort().values
    label = torch.randint(1, 5, (num_relevant,), generator=generator).float()
    scores = torch.randn(ITEMS, generator=generator, dtype=torch.float64)
    scores[item] += 0.7
    query = torch.arange(copies).repeat_interleave(num_relevant)
    return Relevance.from_pairs(query, item.repeat(copies), label.repeat(copies), num_items=ITEMS), scores


def true_ranks(relevance, scores, surrogate):
    """g of the first query's pairs: the mean over the full list."""
    relevant = scores[relevance.item[: int(relevance.num_relevant[0])].long()]
    return surrogate(scores.unsqueeze(0) - relevant.unsqueeze(1)).mean(-1)
