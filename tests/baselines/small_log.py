"""A small set of sequences with tastes, its last two items held out, prepared as a user does it."""

import random

import numpy as np

from songrank.data import prepare


def prepared(folder, *, seed=0, users=60, items=30, length=9, **options):
    rng = random.Random(seed)
    lines = []
    for user in range(users):
        weights = [3.0 if item % 3 == user % 3 else 0.3 + 2.0 / (1 + item) for item in range(items)]
        drawn = sorted(range(items), key=lambda item: rng.expovariate(weights[item]))[:length]
        lines.append(" ".join(map(str, [user, *drawn])) + "\n")
    file = folder / "log.txt"
    file.write_text("".join(lines))
    return prepare("sequences", file, folder / "data", overwrite=True, **options)


def dense(dataset, *splits):
    """0 and 1 for each query and item."""
    matrix = np.zeros((dataset.num_queries, dataset.num_items))
    for name in splits:
        part = dataset[name]
        for query in range(part.num_queries):
            for at in range(int(part.offsets[query]), int(part.offsets[query + 1])):
                matrix[query, int(part.item[at])] = 1.0
    return matrix


def mean_ndcg(scores, targets, seen, k):
    """Of one target a query, ranked behind all that score as high, among items that were not seen."""
    values = []
    for score, target, known in zip(scores, targets, seen, strict=True):
        (item,) = np.flatnonzero(target)
        rank = sum(score[other] >= score[item] for other in range(len(score)) if not known[other])
        values.append(1 / np.log2(1 + rank) if rank <= k else 0.0)
    return float(np.mean(values))
