"""Frequency-scaled weight decay of item embeddings."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from songrank.core.processes import ALONE, Processes
from songrank.core.relevance import Relevance


class FrequencyScaledDecay:
    r"""Optimiser pre-hook that adds λ·s_x·w_x to the gradient of each item's row of some tables.

    With c_x the number of queries to which item x is relevant (at least 1):

        s_x = c_xᵖ / mean over items of cᵖ

    so λ is the mean decay over items, and p = 0 is ordinary weight decay, which affects rare items most since their
    gradients are small. Matrix factorisation benefits from p > 0 (Rendle et al., *Revisiting the Performance of iALS on
    Item Recommendation Benchmarks*, RecSys 2022, where p is ν); docs/experiments/movielens-1m.md shows its effect.
    """

    def __init__(
        self,
        tables: Sequence[nn.Embedding],
        relevance: Relevance,
        decay: float,
        power: float,
        processes: Processes = ALONE,
    ) -> None:
        self.rows: list[tuple[Tensor, Tensor]] = []
        if not tables:
            return
        count = torch.bincount(relevance.item, minlength=relevance.num_items)
        if relevance.query_range != (0, relevance.num_queries):  # of one of several processes
            count = processes.add(count)
        count = count.cpu()
        scaled = count.clamp_min(1).double().pow(power)
        share = (decay * scaled / scaled.mean()).unsqueeze(1)
        self.rows = [(table.weight, share.to(table.weight)) for table in tables]

    @torch.no_grad()
    def __call__(self, optimiser: torch.optim.Optimizer, args: Any, options: Any) -> None:
        """Add the decay to the gradients."""
        for weight, share in self.rows:
            if weight.grad is not None:
                weight.grad.addcmul_(weight, share)
