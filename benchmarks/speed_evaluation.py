"""Rows of speed.py: ranking of all items for all users, compared with a full sort and torchmetrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from floors import catalogue_evaluation
from measuring import Peak
from peers import Straightforward, installed
from peers_evaluation import CUTOFFS, full_sort, torchmetrics_ndcg
from speed_machine import DIM, QUERIES, Machine
from speed_table import Row
from timing import medians

from songrank import Relevance, kernels, models
from songrank.metrics import evaluate_catalogue

SECONDS_TARGET, MEMORY_TARGET = 0.08, 4.0
METRICS = tuple(f"ndcg@{k}" for k in CUTOFFS)
_CPU_USERS = 500
_BATCH = {"cpu": 64, "cuda": 1024}
_PLAIN_USERS = {"cpu": 16, "cuda": 512}  # users whose pairs all pass through the straightforward model
_PLAIN_BATCH = 16
_METRIC_USERS = 64


def held_out(relevance: Relevance, users: int) -> Relevance:
    """One target per user, their last item; the others are excluded as seen items."""
    indptr = relevance.indptr[: users + 1].cpu()
    item = relevance.item[: int(indptr[-1])].long().cpu()
    query = torch.repeat_interleave(torch.arange(users), indptr.diff())
    last = torch.zeros_like(item, dtype=torch.bool)
    last[indptr[1:] - 1] = True
    seen = query[~last], item[~last]
    items = relevance.num_items
    return Relevance.from_pairs(query[last], item[last], num_queries=users, num_items=items, exclude=seen)


def evaluation(model: Any, targets: Relevance) -> Callable[[], dict[str, float]]:
    """NDCG by songrank."""
    return lambda: evaluate_catalogue(model, targets, metrics=METRICS).values


def evaluation_rows(machine: Machine) -> list[Row]:
    """Seconds, memory, and other implementations."""
    users = QUERIES if machine.gpu else _CPU_USERS
    device, items = machine.device, machine.relevance.num_items
    on_host = held_out(machine.relevance, users)
    model = models.create("neumf", num_queries=users, num_items=items, dim=DIM).to(device).eval()
    score_all: Any = model.score_all
    with Peak(device) as peak:
        targets = on_host.to(device)
        ours = evaluation(model, targets)
        found = ours()
    excluded = targets.taken_item.shape[0] - users
    floor = machine.floor(catalogue_evaluation(users, items, DIM, excluded)) / 1e3
    batch = _BATCH[device.type]
    theirs = full_sort(score_all, targets, users, batch)
    ways: dict[str, Callable[[], object]] = {"": ours}
    if machine.gpu:
        ways["plain"] = lambda: _plainly(ours)
    ways["full sort, same scores"] = lambda: full_sort(score_all, targets, users, batch)
    taken = medians(ways, 3, 1)
    rate = users * items / taken[""] / 1e3
    notes = [
        f"{users:,} × {items:,}, {excluded:,} seen pairs excluded; {rate:,.0f} M scores per second",
        f"NDCG@50 by songrank {found['ndcg@50']:.6f}, by the full sort of the same scores {theirs['ndcg@50']:.6f}",
        *_slow_peers(machine, score_all, targets, users, taken[""]),
    ]
    peers = {name: value / 1e3 for name, value in taken.items()}
    seconds = peers.pop("")
    return [
        Row("all-ranking evaluation, NDCG@10/20/50", seconds, "s", SECONDS_TARGET, floor, peers, notes),
        Row("  peak memory beyond the model", peak.gigabytes(), "GB", MEMORY_TARGET),
    ]


def _plainly(run: Callable[[], object]) -> None:
    with kernels.plain():
        run()


def _slow_peers(machine: Machine, score_all: Any, targets: Relevance, users: int, ours: float) -> list[str]:
    """Costs per user of implementations that are too slow for all users."""
    device = machine.device
    some = min(users, _PLAIN_USERS[device.type])
    plain = Straightforward(users, targets.num_items).to(device).eval()
    every = torch.arange(targets.num_items, device=device).unsqueeze(0)

    def plain_scores(user: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = plain(user, every.expand(user.shape[0], -1))
        return scores

    taken = medians({"plain": lambda: full_sort(plain_scores, targets, some, _PLAIN_BATCH)}, 3, 1)["plain"] / some
    lines = [_a_user("full sort over the straightforward model", taken, some, ours / users)]
    if installed("torchmetrics"):
        few = min(users, _METRIC_USERS)
        with torch.no_grad():
            scores = score_all(torch.arange(few, device=device))
        run = torchmetrics_ndcg(scores, targets.item[targets.indptr[:few]].long())
        taken = medians({"": run}, 3, 1)[""] / few
        lines.append(_a_user("NDCG@10 of torchmetrics, given scores", taken, few, ours / users))
    return lines


def _a_user(name: str, taken: float, users: int, ours: float) -> str:
    return f"{name}: {taken:.3g} ms per user ({users} users), {taken / ours:.1f} × ours including scores, {ours:.3g} ms"
