"""Rows of speed.py: heads over 31,000 labels, all in every step; time and memory must be linear in labels."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from floors import head_step, label_mlp_body, xml_cnn_body
from measuring import Peak, milliseconds
from speed_machine import Machine, even_relevance
from speed_table import Row
from stepping import MemoryAdapter, TrainingStep, make_loss, num_weights
from torch import Tensor, nn

from songrank import models

LABELS, TEXTS, EPOCHS = 31_000, 2_048, 20
ROWS = {"cpu": 16, "cuda": 128}
MEMORY_TARGET, LINEAR_TARGET = 2.0, 2.2
FEWEST, MOST = 8, 30  # labels per text: 19 on average, as in Wiki10-31K
LOSSES = ("song", "ranknet", "lambdarank", "approx-ndcg", "gumbel-approx-ndcg")
FEATURES, HIDDEN = 5_000, 1_024
VOCABULARY, WORDS, BOTTLENECK = 20_000, 300, 512
CNN = {"dim": 300, "filters": 128, "windows": (2, 4, 8), "pools": 8, "bottleneck": BOTTLENECK}


@dataclass(frozen=True)
class Reader:
    """A model for labels: constructor, input, width below the head, and operations per text up to there."""

    make: Callable[[int], nn.Module]
    texts: Callable[[torch.Generator], Tensor]
    width: int
    body: float


READERS = {
    "label-mlp": Reader(
        lambda labels: models.create(
            "label-mlp", num_features=FEATURES, num_labels=labels, hidden=(HIDDEN,), dropout=0.5
        ),
        lambda generator: torch.rand(TEXTS, FEATURES, generator=generator),
        HIDDEN,
        label_mlp_body(FEATURES, HIDDEN),
    ),
    "xml-cnn": Reader(
        lambda labels: models.create("xml-cnn", vocabulary=VOCABULARY, num_labels=labels, dropout=0.5, **CNN),
        lambda generator: torch.randint(1, VOCABULARY, (TEXTS, WORDS), generator=generator),
        BOTTLENECK,
        xml_cnn_body(WORDS, **CNN),  # type: ignore[arg-type]
    ),
}


def labels_rows(machine: Machine) -> Iterator[Row]:
    """Each model and loss at 31,000 labels, compared with half as many."""
    for model in READERS:
        for loss in LOSSES:
            yield from _both_sizes(machine, model, loss)


def _both_sizes(machine: Machine, model: str, loss: str) -> list[Row]:
    name = f"{model}, {loss}, {LABELS:,} labels"
    try:
        half, all_ = (_one_size(machine, model, loss, labels) for labels in (LABELS // 2, LABELS))
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        return [Row(name, None, notes=[f"does not fit: {str(error).splitlines()[0]}"])]
    finally:
        gc.collect()
        if machine.gpu:
            torch.cuda.empty_cache()
    (half_time, _, half_memory), (time, floor, memory) = half, all_
    notes = [
        f"batch {ROWS[machine.device.type]}; at {LABELS // 2:,} labels {half_time:.4g} ms",
        f"{time / half_time:.2f} × the time of half",
    ]
    rows = [Row(name, time, "ms", None, floor, notes=[", ".join(notes)])]
    if memory is not None and half_memory is not None:
        shown = [f"at {LABELS // 2:,} labels {half_memory:.3g} GB"]
        rows.append(Row("  peak beyond weights and Adam", memory, "GB", MEMORY_TARGET, notes=shown))
        if half_memory > 0:
            rows.append(Row("  memory, all labels / half", memory / half_memory, "×", LINEAR_TARGET))
    return rows


def _one_size(machine: Machine, model: str, loss: str, labels: int) -> tuple[float, float, float | None]:
    """Milliseconds, their floor, and GB beyond weights and optimiser."""
    reader, rows = READERS[model], ROWS[machine.device.type]
    relevance = even_relevance(TEXTS, labels, FEWEST, MOST).to(machine.device)
    texts = reader.texts(torch.Generator().manual_seed(0)).to(machine.device)
    adapter = MemoryAdapter(relevance, lambda slate: (texts[slate.query], slate.item))
    with Peak(machine.device) as peak:
        network = reader.make(labels).to(machine.device)
        built = make_loss(loss, relevance, **({"gamma": 1.0} if loss == "song" else {}))
        step = TrainingStep(
            network, adapter, built, epochs=EPOCHS, queries_per_batch=rows, relevant="all", irrelevant="all"
        )
        for _ in range(6 if machine.gpu else 2):
            step()
    weights = num_weights(network)
    taken = milliseconds({"": step}, machine.device, machine.rounds if machine.gpu else 3, 0)[""]
    pairs = round(rows * (FEWEST + MOST) / 2)
    work = head_step(rows, reader.width, labels, pairs, reader.body, weights)
    return taken, machine.floor(work), peak.gigabytes(less=3 * 4 * weights)
