"""Rows of speed.py: the Context-Aware Ranker on lists in the shape of MSLR-WEB30K."""

from __future__ import annotations

from collections.abc import Callable

import torch
from floors import context_aware_step
from measuring import milliseconds
from speed_machine import Machine
from speed_table import Row
from stepping import MemoryAdapter, TrainingStep, make_loss, num_weights

from songrank import Relevance, models

LISTS, LENGTH, FEATURES, ROWS, EPOCHS, MS_TARGET = 18_919, 100, 136, 64, 100, 2.5
SIZES = {"dim": 96, "blocks": 2, "feed_forward": 384}
SHARES = (0.52, 0.32, 0.13, 0.02, 0.01)  # of labels 0 to 4, about as in MSLR-WEB30K
_CPU_LISTS = 1_000


def lists_rows(machine: Machine) -> list[Row]:
    """A step with SONG, as in the recipe for MSLR-WEB30K."""
    lists = LISTS if machine.gpu else _CPU_LISTS
    generator = torch.Generator().manual_seed(0)
    labels = torch.multinomial(torch.tensor(SHARES), lists * LENGTH, replacement=True, generator=generator)
    features = torch.randn(lists * LENGTH, FEATURES, generator=generator).to(machine.device)
    relevance = Relevance.from_lists(labels.float(), torch.full((lists,), LENGTH)).to(machine.device)
    adapter = MemoryAdapter(relevance, lambda slate: (features[slate.item].float(), slate.mask))
    steps: dict[str, Callable[[], object]] = {}
    for name, speed in (("ours", "auto"), ("plain", "plain")):
        model = models.create("context-aware", num_features=FEATURES, heads=1, dropout=0.1, **SIZES)
        loss = make_loss("song", relevance, gamma=0.3)
        steps[name] = TrainingStep(model, adapter, loss, speed, EPOCHS, queries_per_batch=ROWS, length=LENGTH)
    taken = milliseconds(steps, machine.device, machine.rounds)
    ours = taken.pop("ours")
    work = context_aware_step(ROWS * LENGTH, LENGTH, FEATURES, num_weights(model), **SIZES)
    note = f"{lists:,} lists of {LENGTH} × {FEATURES}, batch {ROWS}"
    name = "a training step, Context-Aware Ranker, SONG"
    return [Row(name, ours, "ms", MS_TARGET, machine.floor(work), taken, [note])]
