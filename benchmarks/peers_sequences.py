"""SASRec of RecTools and of RecBole, with the sizes and histories of the sequence rows of speed.py."""

from __future__ import annotations

import contextlib
import importlib
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from peers import installed
from torch import Tensor

from songrank.core.csr import CSR

_KEPT = 16  # batches that are already on the device
_LEARNING_RATE = 3e-4


@contextlib.contextmanager
def _tf32() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def recbole_step(
    histories: CSR, items: int, device: torch.device, batch: int, sizes: dict[str, Any]
) -> Callable[[], object] | None:
    """A step of RecBole's SASRec with cross-entropy over all items; it learns one target per history."""
    if not installed("recbole"):
        return None
    sasrec = importlib.import_module("recbole.model.sequential_recommender.sasrec").SASRec
    length, dim = sizes["length"], sizes["dim"]
    dropout = {"hidden_dropout_prob": sizes["dropout"], "attn_dropout_prob": sizes["dropout"]}
    names = {"USER_ID_FIELD": "user", "ITEM_ID_FIELD": "item", "LIST_SUFFIX": "_list", "NEG_PREFIX": "neg_"}
    names |= {"ITEM_LIST_LENGTH_FIELD": "item_length"}
    network = {"n_layers": sizes["blocks"], "n_heads": sizes["heads"], "hidden_size": dim, "inner_size": 4 * dim}
    others = {"hidden_act": "gelu", "layer_norm_eps": 1e-12, "initializer_range": 0.02, "loss_type": "CE"}
    config = {**names, **network, **dropout, **others, "MAX_ITEM_LIST_LENGTH": length, "device": device}
    model = sasrec(config, SimpleNamespace(num=lambda field: items + 1)).to(device).train()
    optimiser = torch.optim.Adam(model.parameters(), _LEARNING_RATE)
    batches, at = [_recbole_batch(histories, number, batch, length, device) for number in range(_KEPT)], 0

    def run() -> None:
        nonlocal at
        with _tf32():
            optimiser.zero_grad()
            model.calculate_loss(batches[at % _KEPT]).backward()
            optimiser.step()
        at += 1

    return run


def _recbole_batch(histories: CSR, number: int, batch: int, length: int, device: torch.device) -> dict[str, Tensor]:
    """Padded histories, with 0 as padding, and their last items as targets."""
    chosen = torch.randint(len(histories), (batch,), generator=torch.Generator().manual_seed(number))
    items, sizes, targets = torch.zeros(batch, length, dtype=torch.int64), [], []
    for row, history in enumerate(chosen.tolist()):
        first, last = histories.offsets[history : history + 2].tolist()
        item = histories["item"][first:last].cpu() + 1
        inputs = item[:-1][-length:]
        items[row, : len(inputs)] = inputs
        sizes.append(len(inputs))
        targets.append(int(item[-1]))
    found = {"item_list": items, "item_length": torch.tensor(sizes), "item": torch.tensor(targets)}
    return {name: value.to(device) for name, value in found.items()}


def rectools_step(histories: CSR, device: torch.device, batch: int, sizes: dict[str, Any]) -> float | None:
    """Milliseconds per step of RecTools' SASRec with softmax over all items: its second epoch, batches included."""
    if not (installed("rectools") and installed("pandas") and installed("pytorch_lightning")):
        return None
    pandas, lightning = importlib.import_module("pandas"), importlib.import_module("pytorch_lightning")
    dataset = importlib.import_module("rectools.dataset").Dataset
    sasrec = importlib.import_module("rectools.models").SASRecModel
    table = {"user_id": histories.row_of_entries(), "item_id": histories["item"]}
    rows = {name: value.cpu().numpy() for name, value in table.items()}
    frame = pandas.DataFrame({**rows, "weight": 1.0})
    frame["datetime"] = pandas.Timestamp(0) + pandas.to_timedelta(range(len(frame)), unit="s")
    seconds: list[float] = []

    class Clock(lightning.Callback):  # type: ignore[misc, name-defined]
        def on_train_epoch_start(self, *_: Any) -> None:
            seconds.append(-_now(device))

        def on_train_epoch_end(self, trainer: Any, *_: Any) -> None:
            seconds[-1] = (seconds[-1] + _now(device)) / trainer.num_training_batches

    def trainer() -> Any:
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        where = "gpu" if device.type == "cuda" else "cpu"
        more = {"enable_model_summary": False, "accelerator": where, "devices": 1, "callbacks": [Clock()]}
        return lightning.Trainer(max_epochs=2, **quiet, **more)

    network = {"n_blocks": sizes["blocks"], "n_heads": sizes["heads"], "n_factors": sizes["dim"]}
    network |= {"dropout_rate": sizes["dropout"], "session_max_len": sizes["length"]}
    options = {"loss": "softmax", "batch_size": batch, "lr": _LEARNING_RATE, "get_trainer_func": trainer}
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    with warnings.catch_warnings(), _tf32():
        warnings.simplefilter("ignore")
        sasrec(**network, **options).fit(dataset.construct(frame))
    return 1e3 * seconds[-1]


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()
