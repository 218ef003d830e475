"""Memory of losses on long lists."""

import random
from pathlib import Path

import torch

from attacks.tries import BrokenPromiseError, answer, forked, judged
from songrank import DocumentRanker, Slate
from songrank.losses.registry import LOSSES


def try_memory(random: random.Random, place: Path, base: Path) -> None:
    """A loss on a long list, and documents of long lists: memory for the list, not for its square, or one line."""
    name = random.choice(list(LOSSES))
    size, relevant = random.choice((20_000, 50_000, 100_000)), random.choice((10, 200))

    def step() -> bool:
        labels = torch.zeros(1, size)
        labels[:, :relevant] = 1.0
        k = 5 if name in ("k-song", "faster-k-song", "sl-at-k") else None
        slate = Slate.from_batch(labels, torch.zeros(1, dtype=torch.int64), torch.arange(relevant).view(1, -1), k=k)
        object.__setattr__(slate, "complete", True)
        sizes = {"num_pairs": relevant, "num_queries": 1, "queries_per_batch": 1, "active_queries": 1, "seed": 0}
        scores = torch.randn(1, size, requires_grad=True)
        loss = LOSSES[name].build({} if k is None else {"k": k}, sizes)
        loss(scores, slate).backward()
        return scores.grad is not None and bool(scores.grad.isfinite().all())

    def fit() -> None:
        x, y = torch.randn(3 * size // 10, 4).numpy(), torch.arange(3 * size // 10).remainder(3).numpy()
        small = {"model.hidden": [4], "warm_up.epochs": 1}
        DocumentRanker(epochs=1, options=small, verbose=0).fit(x, y, group=[size // 10] * 3)

    if random.random() < 0.2:
        judged(forked(fit, place), (0,))
        return
    done = judged(forked(answer(step), place))
    if done.refused != (LOSSES[name].traits.cost == "O(L²)") or (not done.refused and done.out != "True\n"):
        raise BrokenPromiseError(f"{name} on {size:,} items: {(done.err or done.out)[-150:]}")
    if done.megabytes > 1500:
        raise BrokenPromiseError(f"{name} on {size:,} items takes {done.megabytes:,.0f} MB")
