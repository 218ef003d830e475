"""Rows of speed.py: one whole training step of NeuMF, with SONG beside its peers, and with every loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from floors import neumf_step
from measuring import milliseconds
from peers import installed, libauc_loss_step, libauc_step, straightforward_step
from speed_machine import DIM, IRRELEVANT, ITEMS, QUERIES, RELEVANT, ROWS, Machine
from speed_table import Row
from stepping import MemoryAdapter, TrainingStep, make_loss
from timing import medians

from songrank import models
from songrank.losses.registry import LOSSES

SHAPE = (ROWS, RELEVANT, IRRELEVANT)
SOFT_SORTS = ("neural-ndcg", "pirank")
OUTSIDE_TARGET = (*SOFT_SORTS, "gumbel-approx-ndcg")
STEP_TARGET, LOSS_TARGET, MEMORY_TARGET = 0.40, 1.3, 2.0
TWO_POINTS_TARGET = 2.0  # of SONG's: two plain steps


def neumf_training_step(machine: Machine, loss: str = "song", speed: str = "auto") -> TrainingStep:
    """Draw, score, loss, gradient, Adam on all weights."""
    relevance = machine.relevance
    model = models.create("neumf", num_queries=relevance.num_queries, num_items=relevance.num_items, dim=DIM)
    sizes = {"queries_per_batch": ROWS, "relevant": RELEVANT, "irrelevant": IRRELEVANT}
    return TrainingStep(model, MemoryAdapter(relevance), make_loss(loss, relevance), speed, **sizes)


def _floor(machine: Machine) -> float:
    return machine.floor(neumf_step(QUERIES, ITEMS, DIM, ROWS, RELEVANT + IRRELEVANT))


def step_rows(machine: Machine) -> list[Row]:
    """SONG, beside the plain and the straightforward step and libauc's loss; and the memory of the GPU."""
    if machine.gpu:
        torch.cuda.reset_peak_memory_stats()
    ours = neumf_training_step(machine)
    rows = _gpu_rows(machine, ours) if machine.gpu else []
    steps: dict[str, Callable[[], object]] = {"ours": ours}
    steps["plain"] = neumf_training_step(machine, speed="plain")
    steps["straightforward"] = straightforward_step(machine.relevance, *SHAPE)
    slow: dict[str, Callable[[], object]] = {}
    if installed("libauc"):
        steps["libauc, loss only"] = libauc_loss_step(machine.relevance, *SHAPE)
        slow["libauc, users one by one"] = libauc_step(machine.relevance, *SHAPE)
    taken = milliseconds(steps, machine.device, machine.rounds)
    taken |= milliseconds(slow, machine.device, max(3, machine.rounds // 4), 1)
    value = taken.pop("ours")
    note = f"{ROWS * (RELEVANT + IRRELEVANT) / value / 1e3:.1f} M pairs a second; {machine.relevance}"
    return [Row("a training step, SONG", value, "ms", STEP_TARGET, _floor(machine), taken, [note]), *rows]


def _gpu_rows(machine: Machine, ours: TrainingStep) -> list[Row]:
    """What a whole epoch takes a step, and the memory; rows of tables have waited as long as they will ever after."""
    ours.epoch()
    count = ours.steps_an_epoch
    taken = medians({"": ours.epoch}, 3, 0)[""] / count
    peak = torch.cuda.max_memory_allocated() / 1e9
    note = "all of it: relevance, memory of the loss, weights, Adam, the recorded step"
    return [
        Row("  over whole epochs, their ends included", taken, "ms", STEP_TARGET, _floor(machine)),
        Row("  peak GPU memory", peak, "GB", MEMORY_TARGET, notes=[note]),
    ]


def loss_rows(machine: Machine) -> Iterator[Row]:
    """The same step with every loss, one after the other."""
    names = [name for name in LOSSES if machine.gpu or name not in SOFT_SORTS]
    song = 0.0
    for name in names:
        if machine.gpu:
            torch.compiler.reset()  # a run compiles one loss or two, and no more than a few in one process
        step = neumf_training_step(machine, name)
        warm_up = step.steps_an_epoch if machine.gpu else 2
        taken = milliseconds({name: step}, machine.device, machine.rounds, warm_up)[name]
        song = song or taken
        target = None if name in OUTSIDE_TARGET else STEP_TARGET if name == "song" else LOSS_TARGET * song
        if name.startswith("faster"):
            target = TWO_POINTS_TARGET * song
        notes = [] if name == "song" else [f"{taken / song:.2f} × SONG's"]
        yield Row(f"a training step, {name}", taken, "ms", target, _floor(machine), notes=notes)
        del step
    if not machine.gpu:
        yield Row(", ".join(SOFT_SORTS), None, notes=["left out on a CPU: they sort softly, too slow there"])
