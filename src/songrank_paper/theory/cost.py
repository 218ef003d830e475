"""(d) Cost per step as lists grow, compared with the cost of the full gradient."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from songrank.core.relevance import Relevance
from songrank.core.slate import Slate
from songrank.losses.faster_song import FasterSONG
from songrank.losses.ksong import KSONG
from songrank.losses.song import SONG
from songrank.sampling import SlateSampler
from songrank_paper.experiment import Cell, Findings, Found, Table
from songrank_paper.theory.figures import STYLES, log_axes, panels
from songrank_paper.theory.protocol import Protocol

QUERIES, BATCH, RELEVANT, IRRELEVANT, DIM, TOP = 64, 32, 10, 50, 16, 10
STEPS = {"song": "SONG", "k-song": "K-SONG", "faster-song": "Faster SONG", "full": "full lists"}


def measure(folder: Path, *, step: str, list_size: int, repeats: int) -> dict[str, Any]:
    """A step of a dot-product model with dimension 16: sampling, scores, comparisons and backward pass.

    Returns:
        ``scored`` and ``compared``: items and pairs of items per step, over both points; ``ms``: the median time, the
        only result that is not reproducible.
    """
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    query = torch.arange(QUERIES).repeat_interleave(RELEVANT)
    item = torch.stack([torch.randperm(list_size, generator=generator)[:RELEVANT] for _ in range(QUERIES)])
    relevance = Relevance.from_pairs(query, item.reshape(-1), None, QUERIES, list_size)
    irrelevant = "all" if step == "full" else IRRELEVANT
    sampler = SlateSampler(relevance, BATCH, "all", irrelevant, k=TOP if step == "k-song" else None)
    vectors = [torch.randn(n, DIM, generator=generator, requires_grad=True) for n in (QUERIES, list_size)]
    points = 2 if step == "faster-song" else 1
    batch = torch.arange(BATCH)
    slate = sampler.draw(batch, 0)
    one = _step(step, relevance, sampler, vectors)
    times = []
    for epoch in range(repeats + 3):
        start = perf_counter()
        one(batch, epoch)
        times.append(perf_counter() - start)
    scored = points * BATCH * slate.item.shape[1]
    return {"scored": scored, "compared": scored * RELEVANT, "ms": 1e3 * median(times[3:])}


def _step(
    step: str, relevance: Relevance, sampler: SlateSampler, vectors: list[Tensor]
) -> Callable[[Tensor, int], None]:
    sizes = relevance.num_pairs, relevance.num_queries
    loss: SONG = SONG(sizes[0], 1.0 if step == "full" else 0.1)
    if step == "k-song":
        loss = KSONG(*sizes, TOP)
    elif step == "faster-song":
        loss = FasterSONG(*sizes, BATCH)

    earlier = [(0.99 * each).detach().requires_grad_() for each in vectors]

    def run(batch: Tensor, epoch: int) -> None:
        slate = sampler.draw(batch, epoch)
        scores = _scores(slate, vectors)
        if step == "faster-song":
            value: Tensor = loss(scores, slate, before=_scores(slate, earlier))
            torch.autograd.grad(value, [*vectors, *earlier])
        else:
            torch.autograd.grad(loss(scores, slate), vectors)

    return run


def _scores(slate: Slate, vectors: list[Tensor]) -> Tensor:
    query, item = vectors[0][slate.query], vectors[1]
    if slate.item.shape[0] == 1:
        return query @ item[slate.item[0]].T
    return torch.bmm(item[slate.item], query.unsqueeze(2)).squeeze(2)


def cells(protocol: Protocol, found: Found) -> list[Cell]:
    """All kinds of steps at each N_q."""
    return [_cell(protocol, step, size) for step in STEPS for size in protocol.list_sizes]


def _cell(protocol: Protocol, step: str, size: int) -> Cell:
    options = {"step": step, "list_size": size, "repeats": protocol.repeats}
    return Cell(f"cost of {STEPS[step]}, N_q {size}", "songrank_paper.theory.cost:measure", options, timed=True)


def show(protocol: Protocol, found: Found) -> Findings:
    """Comparisons and times against N_q."""
    figure, axes = panels(2)
    sizes = list(protocol.list_sizes)
    log_axes(axes[0], "counted", "N_q", "comparisons per step")
    log_axes(axes[1], "measured, one CPU thread", "N_q", "ms per step")
    rows: list[list[str | float | int | None]] = []
    remarks = []
    for (step, title), style in zip(STEPS.items(), STYLES, strict=False):
        results = [found[_cell(protocol, step, size).key] for size in sizes]
        for place, what in zip(axes, ("compared", "ms"), strict=True):
            place.plot(sizes, [r[what] for r in results], marker="o", markersize=3, label=title, **style)
        for size, r in zip(sizes, results, strict=True):
            rows.append([title, size, r["scored"], r["compared"], f"{r['ms']:.2f}"])
        growth, slower = sizes[-1] / sizes[0], results[-1]["ms"] / results[0]["ms"]
        more = results[-1]["compared"] / results[0]["compared"]
        remarks.append(
            f"{title}: lists {growth:g} times as long need {more:g} times the comparisons, {slower:.1f} times the time."
        )
    for place in axes:
        place.legend(fontsize=7)
    columns = ["step", "N_q", "items scored", "comparisons", "ms"]
    return Findings(remarks, {"cost": Table("Cost per step", columns, rows)}, {"cost": figure})
