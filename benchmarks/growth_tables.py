"""Rows of speed.py: sampling, loss and state update against the size of the catalogue and of the memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from floors import Work, sampling, song_loss, state_update
from measuring import Recorded, milliseconds, room
from speed_machine import IRRELEVANT, RELEVANT, ROWS, Machine, even_relevance
from speed_table import Row
from torch import Tensor

from songrank import SONG, Relevance, Slate, SlateSampler
from songrank.losses.memory import MemoryTable

COLUMNS = RELEVANT + IRRELEVANT
ITEM_SIZES = (10**3, 10**4, 10**5, 10**6, 10**7)
STATE_SIZES = (10**6, 10**7, 10**8, 10**9)
SPREAD_TARGET = 1.10
QUERIES, FEWEST, MOST = 20_000, 10, 50
_POOL = 1_000  # batches of different rows; on a GPU more than its cache
_CPU_STATE = 10**8


def size_row(machine: Machine, name: str, found: Mapping[int, float], work: Work | None = None) -> Row:
    """The time at the largest size, with those at all sizes."""
    largest = max(found)
    shown = ", ".join(f"{_power(size)} {value:.4g}" for size, value in found.items())
    floor = None if work is None else machine.floor(work)
    return Row(f"{name}, {_power(largest)}", found[largest], "ms", None, floor, notes=[shown])


def flat_rows(machine: Machine, name: str, found: Mapping[int, float], work: Work) -> list[Row]:
    """The same for times that must not grow, with the ratio of the largest to the smallest."""
    spread = max(found.values()) / min(found.values())
    return [size_row(machine, name, found, work), Row("  largest / smallest", spread, "×", SPREAD_TARGET)]


def _power(size: int) -> str:
    return f"10^{len(str(size)) - 1}"


def cycling(target: Tensor, pool: Tensor) -> Callable[[], None]:
    """A function that writes the next row of the pool into the target."""
    at = 0

    def advance() -> None:
        nonlocal at
        target.copy_(pool[at % pool.shape[0]])
        at += 1

    return advance


def draw(relevance: Relevance) -> Recorded:
    """Sampling of 256 × (10 + 300) items."""
    sampler = SlateSampler(relevance, ROWS, RELEVANT, IRRELEVANT)
    order = sampler.order(0)
    pool = order[: order.shape[0] // ROWS * ROWS].view(-1, ROWS)
    query = pool[0].clone()
    return Recorded(lambda: sampler.draw(query, 0), relevance.device, cycling(query, pool))


def apply_loss(slate: Slate, num_pairs: int, pool: Tensor) -> Recorded:
    """SONG forward and backward on given scores, with reads and writes of its memory."""
    with slate.query.device:
        loss = SONG(num_pairs)
        scores = torch.randn(slate.label.shape).requires_grad_()
    pair = pool[0].clone()
    given = replace(slate, pair=pair)

    def work() -> None:
        scores.grad = None
        loss(scores, replace(given)).backward()  # a new slate, since slates cache derived values

    return Recorded(work, slate.query.device, cycling(pair, pool))


def update_state(num_pairs: int, pool: Tensor) -> Recorded:
    """Reading and writing 256 × 10 rows of memory."""
    with pool.device:
        table = MemoryTable(num_pairs)
        estimate = torch.rand(pool.shape[1:])
    rows = pool[0].clone()

    def work() -> None:
        table.scatter(rows, table.gather(rows) * 0.9 + estimate)

    return Recorded(work, pool.device, cycling(rows, pool))


def random_pairs(num_pairs: int, device: torch.device) -> Tensor:
    """[batches, 256, 10] rows of the memory."""
    return torch.randint(num_pairs, (_POOL, ROWS, RELEVANT), device=device)


def by_items(machine: Machine) -> list[Row]:
    """Fixed pairs, growing catalogue."""
    found: dict[str, dict[int, float]] = {"sampling": {}, "loss": {}, "state update": {}}
    relevances = {items: even_relevance(QUERIES, items, FEWEST, MOST).to(machine.device) for items in ITEM_SIZES}
    for name, times in found.items():
        steps = {}
        for items, relevance in relevances.items():
            pool = random_pairs(relevance.num_pairs, machine.device)
            if name == "sampling":
                step = draw(relevance)
            elif name == "loss":
                slate = SlateSampler(relevance, ROWS, RELEVANT, IRRELEVANT).draw(relevance_queries(relevance), 0)
                step = apply_loss(slate, relevance.num_pairs, pool)
            else:
                step = update_state(relevance.num_pairs, pool)
            steps[str(items)] = step
        taken = milliseconds(steps, machine.device, machine.rounds)
        times.update({int(items): value for items, value in taken.items()})
    works = {
        "sampling": sampling(ROWS, COLUMNS, (FEWEST + MOST) / 2),
        "loss": song_loss(ROWS, COLUMNS, RELEVANT),
        "state update": state_update(ROWS * RELEVANT),
    }
    return [row for name in found for row in flat_rows(machine, f"{name} by items", found[name], works[name])]


def relevance_queries(relevance: Relevance) -> Tensor:
    """The first 256 queries."""
    return torch.arange(ROWS, device=relevance.device)


def by_state(machine: Machine) -> list[Row]:
    """Growing memory of the loss, with random pairs."""
    relevance = even_relevance(QUERIES, 10**5, FEWEST, MOST).to(machine.device)
    slate = SlateSampler(relevance, ROWS, RELEVANT, IRRELEVANT).draw(relevance_queries(relevance), 0)
    losses, updates = {}, {}
    for size in STATE_SIZES:
        if (not machine.gpu and size > _CPU_STATE) or 3 * 4 * size > room(machine.device):
            print(f"{size:,} pairs of state: skipped, on a CPU or for lack of memory")
            break
        pool = random_pairs(size, machine.device)
        losses[str(size)], updates[str(size)] = apply_loss(slate, size, pool), update_state(size, pool)
    found = [milliseconds(steps, machine.device, machine.rounds) for steps in (losses, updates)]
    loss, update = ({int(size): value for size, value in taken.items()} for taken in found)
    return [
        *flat_rows(machine, "loss by pairs of state", loss, song_loss(ROWS, COLUMNS, RELEVANT)),
        *flat_rows(machine, "state update by pairs of state", update, state_update(ROWS * RELEVANT)),
    ]
