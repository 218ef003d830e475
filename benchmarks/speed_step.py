"""Rows of speed.py: a full training step of NeuMF, with SONG and other implementations, and with every loss."""

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
STEP_TARGET, LOSS_TARGET, MEMORY_TARGET = 0.22, 1.3, 2.0
TWO_POINTS_TARGET = 2.0  # relative to SONG: two plain steps
CPU_TARGET = 0.2  # relative to the straightforward step


def neumf_training_step(machine: Machine, loss: str = "song", speed: str = "auto") -> TrainingStep:
    """Sampling, scores, loss, gradient, and Adam on all weights."""
    relevance = machine.relevance
    model = models.create("neumf", num_queries=relevance.num_queries, num_items=relevance.num_items, dim=DIM)
    sizes = {"queries_per_batch": ROWS, "relevant": RELEVANT, "irrelevant": IRRELEVANT}
    return TrainingStep(model, MemoryAdapter(relevance), make_loss(loss, relevance), speed, **sizes)


def _floor(machine: Machine) -> float:
    return machine.floor(neumf_step(QUERIES, ITEMS, DIM, ROWS, RELEVANT + IRRELEVANT))


def step_rows(machine: Machine) -> list[Row]:
    """SONG, compared with the plain step, the straightforward step and the loss of libauc; and GPU memory."""
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
    note = f"{ROWS * (RELEVANT + IRRELEVANT) / value / 1e3:.1f} M pairs per second; {machine.relevance}"
    first = Row("training step, SONG", value, "ms", STEP_TARGET, _floor(machine), taken, [note])
    return [first, *_against_straightforward(machine, value, taken["straightforward"]), *rows]


def _against_straightforward(machine: Machine, ours: float, theirs: float) -> list[Row]:
    """The target on a CPU is a ratio."""
    if machine.gpu:
        return []
    name, floor = "  relative to the straightforward step", _floor(machine) / theirs
    notes = [f"{theirs / ours:.1f} × as fast"]
    return [Row(name, ours / theirs, "×", CPU_TARGET, floor, notes=notes, everywhere=True)]


def _gpu_rows(machine: Machine, ours: TrainingStep) -> list[Row]:
    """Time per step over full epochs, and memory, with deferred row updates in their steady state."""
    ours.epoch()
    count = ours.steps_an_epoch
    taken = medians({"": ours.epoch}, 3, 0)[""] / count
    peak = torch.cuda.max_memory_allocated() / 1e9
    note = "total: relevance, memory of the loss, weights, Adam, captured CUDA graph"
    return [
        Row("  over full epochs, including their ends", taken, "ms", STEP_TARGET, _floor(machine)),
        Row("  peak GPU memory", peak, "GB", MEMORY_TARGET, notes=[note]),
    ]


def loss_rows(machine: Machine) -> Iterator[Row]:
    """The same step with every loss, one after the other."""
    names = [name for name in LOSSES if machine.gpu or name not in SOFT_SORTS]
    song = 0.0
    for name in names:
        if machine.gpu:
            torch.compiler.reset()  # the number of compilations per process is limited
        step = neumf_training_step(machine, name)
        warm_up = step.steps_an_epoch if machine.gpu else 2
        taken = milliseconds({name: step}, machine.device, machine.rounds, warm_up)[name]
        song = song or taken
        target = None if name in OUTSIDE_TARGET else STEP_TARGET if name == "song" else LOSS_TARGET * song
        if name.startswith("faster"):
            target = None  # as a ratio, in the next row
        notes = [] if name == "song" else [f"{taken / song:.2f} × SONG"]
        yield Row(f"training step, {name}", taken, "ms", target, _floor(machine), notes=notes)
        if name.startswith("faster"):
            yield Row("  relative to SONG", taken / song, "×", TWO_POINTS_TARGET, everywhere=True)
        del step
    if not machine.gpu:
        yield Row(", ".join(SOFT_SORTS), None, notes=["skipped on a CPU: soft sorting is too slow"])
