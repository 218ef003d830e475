"""Rows of speed.py: forward and backward of NeuMF, its optimiser, and evaluation against the size of the tables."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace

import torch
from floors import BACKWARD, dense_adam, neumf_pairs
from growth_tables import COLUMNS, FEWEST, ITEM_SIZES, MOST, QUERIES, SPREAD_TARGET, cycling, flat_rows, size_row
from measuring import Recorded, milliseconds, room
from shapes import long_tailed
from speed_evaluation import evaluation, held_out
from speed_machine import DIM, IRRELEVANT, RELEVANT, ROWS, Machine, even_relevance
from speed_table import Row
from stepping import make_loss, make_stage
from timing import medians

from songrank import SlateSampler, kernels, models
from songrank.training.optim.row_adam import RowAdam

_POOL = {"cpu": 16, "cuda": 400}  # batches of different items, so that deferred row updates occur
_COPIES = 6  # of the weights in memory: two moments, and gradients, eager and captured
_OPTIMISERS = {
    "dense Adam adds": ("adam", "plain"),
    "the optimiser of songrank train adds": ("adam", "auto"),
    "lazy-adam adds": ("lazy-adam", "auto"),
}


def by_items(machine: Machine) -> list[Row]:
    """Forward and backward without an optimiser, and what optimisers add to that, by the size of the item table."""
    passes: dict[int, float] = {}
    by_pair: dict[int, float] = {}
    added: dict[str, dict[int, float]] = {name: {} for name in _OPTIMISERS}
    for items in ITEM_SIZES:
        if _COPIES * 4 * 2 * DIM * (items + QUERIES) > room(machine.device):
            print(f"{items:,} items: not enough memory for the model and its optimiser")
            break
        passes[items], _ = _pass(machine, items, "adam", "auto", update=False)
        by_pair[items], _ = _pass(machine, items, "adam", "auto", update=False, once_per_pair=True)
        kinds = {}
        for name, (optimiser, speed) in _OPTIMISERS.items():
            taken, kinds[name] = _pass(machine, items, optimiser, speed, update=True)
            added[name][items] = taken - passes[items]
    largest = max(passes)
    work = neumf_pairs(ROWS * COLUMNS, min(largest, ROWS * COLUMNS), DIM)
    rows = flat_rows(machine, "forward and backward, items once per pair, by items", by_pair, work.times(BACKWARD))
    rows.append(size_row(machine, "forward and backward as trained, by items", passes, work.times(BACKWARD)))
    adam = dense_adam(2 * DIM * (largest + QUERIES))
    for name, found in added.items():
        row = size_row(machine, name, found, adam if name.startswith("dense") else None)
        rows.append(replace(row, notes=[*row.notes, f"{kinds[name]} at the largest"]))
    return rows


def _pass(
    machine: Machine, items: int, optimiser: str, speed: str, *, update: bool, once_per_pair: bool = False
) -> tuple[float, str]:
    """Milliseconds of forward and backward, with or without the update, and the optimiser's name.

    Where items are fewer than pairs, NeuMF works out an item's half of its first layer once for each item. That is a
    shortcut for small catalogues; ``once_per_pair`` goes without it, as large ones must.
    """
    relevance = even_relevance(QUERIES, 1_000, FEWEST, MOST).to(machine.device)
    sampler = SlateSampler(relevance, ROWS, RELEVANT, IRRELEVANT)
    with machine.device:
        model = models.create("neumf", num_queries=QUERIES, num_items=items, dim=DIM).train()
        pool = torch.randint(items, (_POOL[machine.device.type], ROWS, COLUMNS))
        query = torch.randperm(QUERIES)[:ROWS]
    made = make_stage(make_loss("song", relevance), sampler, optimiser=optimiser).make_optimiser(model, speed=speed)
    assert isinstance(model, models.NeuMF)
    item = pool[0].clone()
    if once_per_pair:
        model.num_items = sys.maxsize
    if once_per_pair or (not update and isinstance(made, RowAdam)):  # as RowAdam has them for a step
        for table in itertools.chain(*model.row_tables(0 if once_per_pair else item.numel()).values()):
            table.sparse = True

    def work() -> None:
        made.zero_grad(set_to_none=True)
        with kernels.plain(speed == "plain"):
            if update and isinstance(made, RowAdam):
                made.catch_up(query=query, item=item)
            model(query, item).sum().backward()
            if update:
                made.step()

    step = Recorded(work, machine.device, cycling(item, pool))
    taken = milliseconds({"": step}, machine.device, machine.rounds, pool.shape[0] if machine.gpu else 2)[""]
    return taken, type(made).__name__


def by_scores(machine: Machine) -> list[Row]:
    """Evaluation against queries × items: nanoseconds a score must not grow."""
    queries, items = (65_536, 13_372) if machine.gpu else (128, 4_096)
    seconds = {}
    for users, catalogue in itertools.product((queries, 2 * queries), (items, 2 * items)):
        targets = held_out(long_tailed(users, catalogue, 20 * users), users).to(machine.device)
        model = models.create("neumf", num_queries=users, num_items=catalogue, dim=DIM).to(machine.device).eval()
        seconds[users, catalogue] = medians({"": evaluation(model, targets)}, 5, 1)[""] / 1e3
        del model, targets
    each = [1e9 * value / (users * catalogue) for (users, catalogue), value in seconds.items()]
    shown = ", ".join(f"{users:,} × {catalogue:,} {value:.4g} s" for (users, catalogue), value in seconds.items())
    return [
        Row("evaluation, time a score, largest", each[-1], "ns", notes=[shown]),
        Row("  a score of the largest / of the smallest", each[-1] / each[0], "×", SPREAD_TARGET),
    ]
