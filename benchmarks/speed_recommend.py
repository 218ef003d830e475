"""Rows of speed.py: the 20 best unseen items of all users on a CPU, and drawing slates on a CPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from floors import Work
from peers import installed
from speed_machine import DIM, IRRELEVANT, ITEMS, QUERIES, RELEVANT, ROWS, Machine
from speed_table import Row
from timing import medians

from songrank import Relevance, SlateSampler, models
from songrank.core.csr import CSR
from songrank.core.ids import Ids
from songrank.serving import recommend

K = 20
_SOME_USERS = 10_000
_BATCH = 1_000
DRAW_TARGET = 3.0


def draw_rows(machine: Machine) -> list[Row]:
    """Slates of 256 users with 10 relevant and 300 irrelevant items, with the threads of the run and with one."""
    sampler = SlateSampler(machine.relevance.to("cpu"), ROWS, RELEVANT, IRRELEVANT)
    order, place = sampler.order(0), itertools.count(step=ROWS)

    def draw() -> None:
        first = next(place) % (order.shape[0] - ROWS)
        sampler.draw(order[first : first + ROWS], 0)

    threads = torch.get_num_threads()
    taken = medians({"": draw}, 100)[""]
    torch.set_num_threads(1)
    alone = medians({"": draw}, 100)[""]
    torch.set_num_threads(threads)
    # Item 8, label 4, mask 1 bytes per entry.
    floor = machine.floor(Work(13 * ROWS * (RELEVANT + IRRELEVANT))) if not machine.gpu else None
    name = f"drawing {ROWS} × ({RELEVANT} + {IRRELEVANT}), CPU"
    return [Row(name, taken, "ms", DRAW_TARGET, floor, {"one thread": alone})]


def recommend_rows(machine: Machine) -> list[Row]:
    """Matrix factorisation, seen items excluded; ``torch.topk`` of the same scores, and implicit."""
    users = min(QUERIES, _SOME_USERS)
    relevance = machine.relevance.to("cpu")
    indptr = relevance.indptr[: users + 1]
    seen = CSR(indptr, {"item": relevance.item[: int(indptr[-1])]})
    torch.manual_seed(0)
    model = models.create("matrix-factorisation", num_queries=users, num_items=ITEMS, dim=DIM).eval()
    folder: Any = SimpleNamespace(
        model=model,
        device=torch.device("cpu"),
        seen=seen,
        queries=lambda query: query,
        query_ids=Ids.count(users),
        item_ids=Ids.count(ITEMS),
        item_counts=None,
        need=lambda task: None,
    )
    ways: dict[str, Callable[[], object]] = {
        "": lambda: list(recommend(folder, None, K, fallback="none")),
        f"torch.topk of the scores, {_BATCH:,} users at a time": lambda: _top_k(model, seen, users),
    }
    if installed("implicit"):
        ways["implicit"] = _implicit(model, relevance, users)
    taken = {name: value / 1e3 for name, value in medians(ways, 3, 1).items()}
    seconds = taken.pop("")
    scores = users * ITEMS
    floor = None if machine.gpu else machine.floor(Work(0, 2 * DIM * scores)) / 1e3
    note = f"{users:,} users × {ITEMS:,} items, {seen.num_entries:,} seen pairs excluded"
    note += f"; {seconds * QUERIES / users:.1f} s for {QUERIES:,} users at this rate"
    return [Row(f"the {K} best items of users, CPU", seconds, "s", None, floor, taken, [note])]


@torch.no_grad()
def _top_k(model: Any, seen: CSR, users: int) -> list[Any]:
    """The straightforward way."""
    found = []
    for query in torch.arange(users).split(_BATCH):  # type: ignore[no-untyped-call]
        scores = model.score_all(query)
        owner, at = seen.entries(query)
        scores[owner, seen["item"][at].long()] = -torch.inf
        found.append(scores.topk(K))
    return found


def _implicit(model: Any, relevance: Relevance, users: int) -> Callable[[], object]:
    """The ``recommend`` of implicit with the same vectors."""
    from implicit.cpu.als import AlternatingLeastSquares  # type: ignore[import-untyped]
    from scipy.sparse import csr_matrix

    end = int(relevance.indptr[users])
    item, indptr = relevance.item[:end].numpy(), relevance.indptr[: users + 1].numpy()
    pairs = csr_matrix((np.ones(end, np.float32), item, indptr), (users, ITEMS))
    theirs = AlternatingLeastSquares(factors=DIM, num_threads=torch.get_num_threads())
    with torch.no_grad():
        theirs.user_factors = model.query_vectors(torch.arange(users)).numpy()
        theirs.item_factors = model.item_vectors().numpy()
    return lambda: theirs.recommend(np.arange(users), pairs, N=K)
