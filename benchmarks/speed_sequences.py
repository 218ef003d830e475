"""Rows of speed.py: the sequence model on many short histories, packed and padded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from floors import sequence_step
from measuring import milliseconds
from peers_sequences import recbole_step, rectools_step
from speed_machine import Machine
from speed_table import Row
from stepping import num_weights

from songrank import Relevance, kernels, models
from songrank.core.csr import CSR
from songrank.losses.base import RankingLoss
from songrank.sampling import SequenceSampler, next_items
from songrank.training.config.components import make_component
from songrank.training.trainer.captured_step import make_step
from songrank.training.trainer.history_adapters import SequenceAdapter
from songrank.training.trainer.stages import Stage
from songrank.training.trainer.step import PlainStep, Values

HISTORIES, MEAN, LENGTH, ITEMS, BATCH, EPOCHS = 19_412, 8.6, 200, 12_000, 256, 30
DIM, BLOCKS = 128, 2
MODEL: dict[str, Any] = {"dim": DIM, "blocks": BLOCKS, "heads": 4, "length": LENGTH, "dropout": 0.3}
MS_TARGET = 3.0
_CPU_HISTORIES = 4_000
_SLATE_ROWS = 2**28 // (4 * ITEMS)  # as in songrank train


def short_histories(users: int) -> CSR:
    """Histories of 5 to 200 items with a mean of about 8.6 and a long tail; items follow a power law."""
    generator = torch.Generator().manual_seed(0)
    more = (torch.randn(users, generator=generator) + 0.78).exp()
    length = 5 + (more * ((MEAN - 4.5) / more.mean())).long().clamp(max=LENGTH - 5)
    tail = torch.rand(int(length.sum()), generator=generator, dtype=torch.float64).pow(2.5)
    item = (tail * ITEMS).long()
    return CSR.from_lengths(length, item=item, label=torch.ones(item.shape[0]))


class MemoryHistories(SequenceAdapter):
    """Histories in memory instead of a prepared data set."""

    def __init__(self, histories: CSR, device: torch.device) -> None:
        self.histories, self.device, self.times = histories.to(device), device, False
        self.length, self.windows, self.following = LENGTH, "last", 1
        keys = torch.stack([histories.row_of_entries(), histories["item"]]).unique(dim=1)  # type: ignore[no-untyped-call]
        users = Relevance.from_pairs(keys[0], keys[1], num_queries=len(histories), num_items=ITEMS)
        self.users = users.to(device)
        self.relevance = next_items(self.histories, ITEMS)


class SequenceStep:
    """A training step per call, including sampling."""

    def __init__(self, adapter: MemoryHistories, loss: str, speed: str) -> None:
        torch.manual_seed(0)
        device, plain = adapter.device, speed == "plain"
        model = models.create("sequence", num_items=ITEMS, **MODEL).to(device).train()
        pairs = adapter.relevance
        sizes = {"num_pairs": pairs.num_pairs, "num_queries": pairs.num_queries, "seed": 0}
        made: RankingLoss = make_component("loss", {"name": loss}, {**sizes, "queries_per_batch": BATCH * LENGTH})
        options: dict[str, Any] = {"targets": pairs, "packed": not plain}
        if device.type == "cuda" and not plain:
            options["partial"] = "pad"
        self.sampler = SequenceSampler(adapter.users, adapter.histories, LENGTH, BATCH, **options)
        self.stage = Stage("fine-tuning", made.to(device), self.sampler, EPOCHS, 3e-4, at_once=_SLATE_ROWS)
        optimiser = self.stage.make_optimiser(model, speed=speed)
        values = Values(device, len(self.sampler))
        self.model, self.plain = model, plain
        self.step: PlainStep = make_step(model, adapter, self.stage, optimiser, values, "tf32", speed=speed, warn=print)
        self._left: Iterator[None] = iter(())

    def __call__(self) -> None:
        with kernels.plain(self.plain):
            if next(self._left, False) is False:
                self.step.values.begin()
                self._left = self.step.epoch()
                next(self._left)


@contextlib.contextmanager
def _reported(library: str) -> Iterator[None]:
    """A library that fails, for example with another version of pandas, costs only its own figure."""
    try:
        yield
    except Exception as error:
        print(f"{library}: no comparison: {type(error).__name__}: {error}")


def _libraries(machine: Machine, histories: CSR, rounds: int) -> dict[str, float]:
    """Milliseconds per step of other libraries; on a GPU only, since they pad each history to 200 items."""
    if not machine.gpu:
        print("RecTools and RecBole: skipped on a CPU, where a step padded to 200 items takes seconds")
        return {}
    taken = {}
    with _reported("RecBole"):
        if (step := recbole_step(histories, ITEMS, machine.device, BATCH, MODEL)) is not None:
            name = "RecBole's SASRec, one target per history"
            taken[name] = milliseconds({name: step}, machine.device, rounds)[name]
    with _reported("RecTools"):
        if (found := rectools_step(histories, machine.device, BATCH, MODEL)) is not None:
            taken["RecTools' SASRec"] = found
    return taken


def sequence_rows(machine: Machine) -> Iterator[Row]:
    """A step over all items with SONG and with softmax, packed and padded to the longest history of a batch."""
    histories = short_histories(HISTORIES if machine.gpu else _CPU_HISTORIES)
    adapter = MemoryHistories(histories, machine.device)
    entries = BATCH * histories.num_entries / len(histories)
    rounds = machine.rounds if machine.gpu else min(machine.rounds, 10)
    for loss in ("song", "softmax"):
        steps: dict[str, Callable[[], object]] = {}
        for name, speed in (("ours", "auto"), ("padded", "plain")):
            steps[name] = step = SequenceStep(adapter, loss, speed)
        warm_up = 4 * len(step.sampler) if machine.gpu else 1  # all shapes occur and are captured
        taken = milliseconds(steps, machine.device, rounds, warm_up)
        work = sequence_step(entries, ITEMS, num_weights(step.model), DIM, BLOCKS)
        note = (
            f"{len(histories):,} histories of mean length {entries / BATCH:.1f}, batch {BATCH}, {ITEMS:,} items, tf32"
        )
        ours = taken.pop("ours")
        if loss == "softmax":
            taken |= _libraries(machine, histories, rounds)
        name = f"sequence step, {loss}"
        yield Row(name, ours, "ms", MS_TARGET, machine.floor(work), taken, [note])
