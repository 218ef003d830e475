"""Rows of speed.py: a head over 670,091 labels, the shape of Amazon-670K, with all and with sampled labels."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from floors import head_step
from measuring import Peak, milliseconds
from speed_labels import EPOCHS, READERS, ROWS, TEXTS
from speed_machine import Machine, even_relevance
from speed_table import Row
from stepping import MemoryAdapter, TrainingStep, make_loss, num_weights

LABELS, CPU_LABELS, MODEL = 670_091, 67_009, "xml-cnn"
FEWEST, MOST = 2, 9  # labels per text: 5.5 on average, as in Amazon-670K
MEMORY_TARGET = 40.0


@dataclass(frozen=True)
class Case:
    """A loss with a cost of O(L) per text, over all labels or over relevant and sampled labels."""

    loss: str
    sampled: int | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Loss and labels in words."""
        return f"{self.loss}, {'all labels' if self.sampled is None else f'{self.sampled:,} sampled'}"


_EXPONENTIAL = {"surrogate": "exponential", "gamma": 1.0}
CASES = (
    Case("softmax"),
    Case("bce"),
    Case("song", options=_EXPONENTIAL),
    Case("song", 2_000, _EXPONENTIAL),
)


def many_label_rows(machine: Machine) -> Iterator[Row]:
    """XML-CNN; on a CPU with a tenth of the labels and a smaller batch."""
    labels = LABELS if machine.gpu else CPU_LABELS
    for case in CASES:
        name = f"{MODEL}, {labels:,} labels: {case.title}"
        try:
            yield from _rows(machine, case, labels, name)
        except RuntimeError as error:
            if "memory" not in str(error):
                raise
            yield Row(name, None, notes=[f"out of memory: {str(error).splitlines()[0]}"])
        gc.collect()
        if machine.gpu:
            torch.cuda.empty_cache()


def _rows(machine: Machine, case: Case, labels: int, name: str) -> list[Row]:
    """Milliseconds per step, and the peak memory of weights, Adam, gradients and scores."""
    reader, rows = READERS[MODEL], ROWS[machine.device.type]
    relevance = even_relevance(TEXTS, labels, FEWEST, MOST).to(machine.device)
    texts = reader.texts(torch.Generator().manual_seed(0)).to(machine.device)
    adapter = MemoryAdapter(relevance, lambda slate: (texts[slate.query], slate.item))
    with Peak(machine.device) as peak:
        model = reader.make(labels).to(machine.device)
        loss = make_loss(case.loss, relevance, **case.options)
        slates: dict[str, Any] = {"queries_per_batch": rows, "relevant": "all", "irrelevant": case.sampled or "all"}
        step = TrainingStep(model, adapter, loss, epochs=EPOCHS, **slates)
        for _ in range(6 if machine.gpu else 2):
            step()
    taken = milliseconds({"": step}, machine.device, machine.rounds if machine.gpu else 3, 0)[""]
    weights, scored = num_weights(model), labels if case.sampled is None else MOST + case.sampled
    work = head_step(rows, reader.width, scored, 0, reader.body, weights)
    note = f"batch {rows}, {FEWEST} to {MOST} labels per text"
    return [
        Row(name, taken, "ms", None, machine.floor(work), notes=[note]),
        Row("  peak memory with weights and Adam", peak.gigabytes(), "GB", MEMORY_TARGET),
    ]
