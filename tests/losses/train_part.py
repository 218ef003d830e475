"""Run as a process: two epochs of three losses on a fixed model, over one range of the queries."""

import sys

import torch

from songrank import KSONG, SONG, ListwiseCE, Relevance, SlateSampler

K = 4


def whole_relevance():
    generator = torch.Generator().manual_seed(8)
    relevant = torch.rand(60, 40, generator=generator) < torch.rand(60, 1, generator=generator) * 0.5
    query, item = relevant.nonzero(as_tuple=True)
    label = torch.randint(1, 5, query.shape, generator=generator).float()
    return Relevance.from_pairs(query, item, label, num_queries=60, num_items=40)


def score(query, item):
    """A model that every process has: any fixed function will do."""
    return torch.sin(query.unsqueeze(1) * 1.7 + item * 0.9) * 2


def train(first, last):
    """(states of the losses, what was drawn for each query in each epoch)."""
    relevance = whole_relevance().shard(first, last)
    held = {"pair_range": relevance.pair_range}
    losses = [
        KSONG(relevance.num_pairs, relevance.num_queries, K, query_range=relevance.query_range, **held),
        SONG(relevance.num_pairs, **held),
        ListwiseCE(relevance.num_pairs, **held),
    ]
    drawn = {}
    for loss in losses:
        sampler = SlateSampler(relevance, 7, 4, 6, seed=5, k=K if isinstance(loss, KSONG) else None)
        for epoch in range(2):
            for slate in sampler:
                loss(score(slate.query, slate.item), slate)
                drawn |= {f"{epoch} {int(q)}": slate.item[b] for b, q in enumerate(slate.query)}
    return [loss.state_dict() for loss in losses], drawn


if __name__ == "__main__":
    torch.save(train(int(sys.argv[1]), int(sys.argv[2])), sys.argv[3])
