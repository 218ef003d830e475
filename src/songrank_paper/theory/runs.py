"""Batched runs of a method, with slates drawn as in the theorems and the losses of the package.

Runs differ in seed and learning rate. Each has its own copy of the queries, so that one loss has separate memory rows
for each run. Gradients are separate too, since losses are means over rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from songrank.core.relevance import Relevance
from songrank.core.slate import Slate
from songrank.sampling import SlateSampler
from songrank_paper.theory.problem import SCALE, Problem

AHEAD = 16
"""Number of steps whose slates are drawn together."""


@dataclass(frozen=True)
class Draws:
    """Slates of independent steps: ``batch`` distinct queries, uniformly, with all their relevant items.

    ``SlateSampler`` visits every query once per epoch; in the theorems, each step draws queries independently. Queries
    are therefore drawn here, and items by ``SlateSampler.draw``, with new items in each step and run: for the sampler,
    each (step, seed, query) is a separate query.

    Args:
        problem: the problem.
        batch: |B|, queries per step.
        irrelevant: |B_q|, irrelevant items per query, or ``"all"``.
        seeds: a seed per stream of slates.
        k: K of the slates.

    >>> from songrank_paper.theory.problem import make_problem
    >>> draws = Draws(make_problem(), batch=4, irrelevant=8, seeds=(0, 1))
    >>> slate = next(iter(draws.steps(1)))                         # 2 seeds × 4 queries, 6 relevant and 8 others
    >>> slate.item.shape, bool((slate.query[4:] >= 50).all())
    (torch.Size([8, 14]), True)
    """

    problem: Problem
    batch: int
    irrelevant: int | str
    seeds: Sequence[int]
    k: int | None = None

    def steps(self, count: int, copies: int = 1) -> Iterator[Slate]:
        """``count`` slates; rows by copy, seed and query. Copies have the same slates with separate query indices."""
        streams, base = len(self.seeds), self.problem.relevance
        sampler = SlateSampler(
            _copied(base, AHEAD * streams), self.batch, "all", self.irrelevant, seed=self.seeds[0], k=self.k
        )
        generators = [torch.Generator().manual_seed(seed) for seed in self.seeds]
        stream = torch.arange(streams).view(1, streams, 1)
        for first in range(0, count, AHEAD):
            tickets = [torch.rand(AHEAD, base.num_queries, generator=each) for each in generators]
            query = torch.stack(tickets, 1).topk(self.batch, dim=2).indices
            place = torch.arange(AHEAD).view(AHEAD, 1, 1) * streams + stream
            drawn = sampler.draw((place * base.num_queries + query).reshape(-1), epoch=first // AHEAD)
            for step in range(min(AHEAD, count - first)):
                rows = drawn.rows(step * streams * self.batch, (step + 1) * streams * self.batch)
                yield self._own(rows, step * streams, copies)

    def _own(self, slate: Slate, first: int, copies: int) -> Slate:
        """The slate with repeated rows, and with query and pair indices by copy and seed."""
        base, streams = self.problem.relevance, len(self.seeds)
        assert slate.pair is not None
        copy = torch.arange(copies).repeat_interleave(slate.query.shape[0]) * streams - first
        return replace(
            slate,
            query=slate.query.repeat(copies) + copy * base.num_queries,
            pair=slate.pair.repeat(copies, 1) + (copy * base.num_pairs).unsqueeze(1),
            item=_repeated(slate.item, copies),
            mask=_repeated(slate.mask, copies),
            label=slate.label.repeat(copies, 1),
            column=slate.column.repeat(copies, 1),
            list_size=slate.list_size.repeat(copies),
            num_relevant=slate.num_relevant.repeat(copies),
            ideal_dcg=slate.ideal_dcg.repeat(copies),
        )


class Scorer(nn.Module):
    """The scorer of the problem for many runs: a parameter [seeds, d] per copy, initialised to 0.

    >>> from songrank_paper.theory.problem import make_problem
    >>> scorer = Scorer(make_problem(), copies=3, seeds=2)
    >>> scorer.weights().shape
    torch.Size([6, 10])
    """

    features: Tensor

    def __init__(self, problem: Problem, copies: int, seeds: int) -> None:
        super().__init__()
        self.register_buffer("features", problem.features)
        width = problem.features.shape[2]
        self.runs = nn.ParameterList(torch.zeros(seeds, width, dtype=torch.float64) for _ in range(copies))

    def weights(self) -> Tensor:
        """[R, d], a row per run."""
        return torch.cat(tuple(self.runs))

    def forward(self, query: Tensor, item: Tensor) -> Tensor:
        """[B, L]: scores of these items, each row with the weights of the run of its query."""
        queries = self.features.shape[0]
        chosen = self.features[(query % queries).unsqueeze(1), item]
        own = self.weights()[torch.div(query, queries, rounding_mode="floor")]
        return SCALE * torch.tanh(torch.bmm(chosen, own.unsqueeze(2)).squeeze(2))


def _repeated(values: Tensor, copies: int) -> Tensor:
    """The rows, ``copies`` times; a single row is shared by all."""
    return values if values.shape[0] == 1 else values.repeat(copies, 1)


def _copied(relevance: Relevance, copies: int) -> Relevance:
    counts = relevance.num_relevant
    query = torch.arange(relevance.num_queries).repeat_interleave(counts)
    shift = torch.arange(copies).repeat_interleave(relevance.num_pairs) * relevance.num_queries
    return Relevance.from_pairs(
        query.repeat(copies) + shift,
        relevance.item.long().repeat(copies),
        relevance.label.repeat(copies),
        relevance.num_queries * copies,
        relevance.num_items,
    )
