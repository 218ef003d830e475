"""Helpers that tests of several modules share."""

import torch

from songrank import Relevance


def random_relevance(seed=0, queries=40, items=30, excluded=True):
    """Some queries without relevant items, some with nothing else, and some with exclusions."""
    generator = torch.Generator().manual_seed(seed)
    kind = torch.rand(queries, items, generator=generator)
    share = torch.rand(queries, 1, generator=generator)
    relevant = kind < share * 0.7
    relevant[0] = False
    relevant[1] = True
    barred = (kind > 0.85) & ~relevant if excluded else torch.zeros_like(relevant)
    query, item = relevant.nonzero(as_tuple=True)
    label = torch.randint(1, 6, query.shape, generator=generator) / 2
    exclude = barred.nonzero(as_tuple=True) if excluded else None
    relevance = Relevance.from_pairs(query, item, label, num_queries=queries, num_items=items, exclude=exclude)
    return relevance, relevant, barred
