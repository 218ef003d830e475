"""Other implementations of evaluation: a full sort as in RecBole, and NDCG of torchmetrics."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from songrank import Relevance

Scorer = Callable[[Tensor], Tensor]
CUTOFFS = (10, 20, 50)


@torch.no_grad()
def full_sort(score_all: Scorer, targets: Relevance, users: int, batch: int) -> dict[str, float]:
    """NDCG of one target per user: all scores, seen items at −∞, the top 50, and the rank of the target."""
    seen, starts = targets.taken_item.long(), targets.taken_indptr
    gained = dict.fromkeys(CUTOFFS, torch.zeros((), dtype=torch.float64, device=targets.device))
    for begin in range(0, users, batch):
        user = torch.arange(begin, min(begin + batch, users), device=targets.device)
        scores = score_all(user)
        target = targets.item[targets.indptr[user]].long().unsqueeze(1)
        own = scores.gather(1, target)
        first, last = int(starts[begin]), int(starts[begin + user.shape[0]])
        row = torch.repeat_interleave(user - begin, starts[user + 1] - starts[user])
        scores[row, seen[first:last]] = -torch.inf
        scores.scatter_(1, target, own)
        hits = scores.topk(max(CUTOFFS), dim=1).indices == target
        gain = hits.double() / torch.arange(2, max(CUTOFFS) + 2, device=hits.device).log2()
        for k in CUTOFFS:
            gained[k] = gained[k] + gain[:, :k].sum()
    return {f"ndcg@{k}": float(total) / users for k, total in gained.items()}


def torchmetrics_ndcg(scores: Tensor, target: Tensor) -> Callable[[], float]:
    """NDCG@10 of given scores [users, items] by torchmetrics; ``target`` [users]."""
    from torchmetrics.retrieval import RetrievalNormalizedDCG

    users, items = scores.shape
    metric = RetrievalNormalizedDCG(top_k=CUTOFFS[0])
    relevant = torch.zeros_like(scores, dtype=torch.int64).scatter_(1, target.unsqueeze(1), 1)
    index = torch.arange(users, device=scores.device).unsqueeze(1).expand(users, items)

    def run() -> float:
        metric.reset()
        metric.update(scores.flatten(), relevant.flatten(), indexes=index.flatten())
        return float(metric.compute())

    return run
