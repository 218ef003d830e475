"""A process that evaluates together with others, for test_shared_evaluation.py: prints a checksum of each result."""

import hashlib
import sys

import torch

from songrank import Relevance
from songrank.core.errors import NotFiniteError, UserError
from songrank.core.processes import balanced_ranges, joined
from songrank.metrics import evaluate_catalogue, evaluate_lists, evaluate_sampled
from songrank.metrics.evaluation import gather_evaluation
from songrank.models.document_lists import score_lists

METRICS = ["ndcg@10", "mrr", "recall@20", "map"]
QUERIES, ITEMS, DIM = 211, 300, 24


def catalogue():
    draw = torch.Generator().manual_seed(5)
    scores = torch.rand(QUERIES, ITEMS, generator=draw)
    held_out = scores > torch.rand(QUERIES, 1, generator=draw)  # from 0 to 300 targets
    held_out[::7] = False
    query, item = held_out.nonzero().T
    barred = (torch.rand(QUERIES, ITEMS, generator=draw) < 0.05) & ~held_out
    targets = Relevance.from_pairs(query, item, 1.0 + item % 3, QUERIES, ITEMS, exclude=tuple(barred.nonzero().T))
    users, items = torch.randn(QUERIES, DIM, generator=draw), torch.randn(ITEMS, DIM, generator=draw)
    return targets, lambda query: users[query] @ items.T


def checksum(found):
    content = b"".join(values.numpy().tobytes() for values in found.per_query.values())
    told = [found.values, found.num_queries, found.num_empty, found.ties, found.empty, found.gain, found.candidates]
    return f"{hashlib.sha256(content).hexdigest()[:16]} {told}"


def main(what, processes):
    targets, score = catalogue()
    if what == "catalogue":
        found = evaluate_catalogue(score, targets, metrics=METRICS, empty="zero", memory=2**17, processes=processes)
    elif what == "few queries":
        few = targets.shard(1, 3)
        found = evaluate_catalogue(score, few, metrics=METRICS, processes=processes)
    elif what == "sampled":
        found = evaluate_sampled(
            lambda query, item: score(query).gather(1, item), targets, 50, metrics=METRICS, processes=processes
        )
    elif what == "lists":
        draw = torch.Generator().manual_seed(6)
        lengths = torch.randint(0, 90, (400,), generator=draw)
        features, weight = torch.rand(int(lengths.sum()), 5, generator=draw), torch.rand(5, generator=draw)
        labels = torch.randint(0, 4, (features.shape[0],), generator=draw)
        scores = score_lists(
            lambda rows, mask: rows @ weight, features, lengths, torch.device("cpu"), processes=processes
        )
        found = evaluate_lists(scores, labels, lengths=lengths, metrics=METRICS, processes=processes)
    elif what == "own ranges":
        found = None
        ranges = balanced_ranges(targets.num_relevant, processes.world)
        ranges = [(0, 0), *ranges[:-2], (ranges[-2][0], ranges[-1][1])] if processes.world > 2 else ranges
        first, last = ranges[processes.rank]
        if first < last:
            found = evaluate_catalogue(score, targets.shard(first, last), metrics=METRICS, empty="zero")
        found = gather_evaluation(found, processes)
    elif what == "nan":
        wrong = 200

        def some(query):
            return torch.where((query == wrong).unsqueeze(1), torch.nan, score(query))

        found = evaluate_catalogue(some, targets, memory=2**17, processes=processes)
    print(checksum(found))


if __name__ == "__main__":
    with joined("cpu") as own:
        for what in sys.argv[1:]:
            try:
                main(what, own)
            except (UserError, NotFiniteError) as error:
                print(type(error).__name__, error)
