"""Speed of songrank on this machine: measured times, targets, lower bounds by bytes and operations, other libraries.

    python benchmarks/speed.py [--device cuda] [--only step losses …] [--json FILE]

Targets are for an H200 and shown only on a GPU, except for ratios. On a CPU some rows use smaller sizes. Libraries that
are not installed are skipped: pip install --no-deps libauc==2.0.1, pip install torchmetrics implicit lightgbm xgboost,
pip install "rectools[torch]" recbole.

    step        full training step of NeuMF with SONG, shape of MovieLens-20M, 256 × (10 + 300), and its GPU memory
    losses      the same step with every loss
    evaluation  ranking of all items for all users, seen items excluded
    drawing     slates of 256 × (10 + 300) on a CPU
    recommend   the 20 best unseen items of users, compared with torch.topk and implicit, on a CPU
    train       `songrank train` end to end with the recipe movielens-20m, including the test evaluation
    sequence-run  `songrank train movielens-1m-sequences` end to end, with --movielens-1m ARCHIVE
    lists       Context-Aware Ranker, shape of MSLR-WEB30K
    sequences   the sequence model on short histories, packed and padded
    documents   reading LETOR text and fitting DocumentRanker, compared with XGBoost and LightGBM, on a CPU
    labels      heads over 31,000 labels, with all labels in every step
    many-labels  a head over 670,091 labels, the shape of Amazon-670K, with all and with sampled labels
    startup     help and lists, the import of the library, a relevance from a prepared data set
    growth      times that must not grow with items or pairs, and the cost of optimisers
"""

from __future__ import annotations

import argparse
import gc
import platform
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import growth_models
import growth_tables
import torch
from floors import Ceilings
from speed_documents import document_rows
from speed_evaluation import evaluation_rows
from speed_labels import labels_rows
from speed_lists import lists_rows
from speed_machine import PAIRS, Machine
from speed_many_labels import many_label_rows
from speed_recommend import draw_rows, recommend_rows
from speed_sequences import sequence_rows
from speed_startup import startup_rows
from speed_step import loss_rows, step_rows
from speed_table import Row, Table
from speed_train import sequence_run_rows, train_rows

from songrank import __version__


def growth_rows(machine: Machine) -> Iterator[Row]:
    """All rows on scaling."""
    for part in (growth_tables.by_items, growth_tables.by_state, growth_models.by_items, growth_models.by_scores):
        yield from part(machine)


SECTIONS: dict[str, Callable[[Machine], Iterable[Row]]] = {
    "step": step_rows,
    "losses": loss_rows,
    "evaluation": evaluation_rows,
    "drawing": draw_rows,
    "recommend": recommend_rows,
    "train": train_rows,
    "sequence-run": sequence_run_rows,
    "lists": lists_rows,
    "sequences": sequence_rows,
    "documents": document_rows,
    "labels": labels_rows,
    "many-labels": many_label_rows,
    "startup": startup_rows,
    "growth": growth_rows,
}


def describe(machine: Machine) -> dict[str, Any]:
    """The conditions of the measurement."""
    name = torch.cuda.get_device_name() if machine.gpu else f"CPU, {torch.get_num_threads()} threads"
    ceilings = machine.ceilings
    return {
        "device": name,
        "versions": f"songrank {__version__}, torch {torch.__version__}, Python {platform.python_version()}",
        "ceilings": f"{ceilings.bytes / 1e9:,.0f} GB/s by a copy, {ceilings.operations / 1e9:,.0f} GFLOP/s "
        f"by a float32 product (precision {torch.get_float32_matmul_precision()})",
        "medians of": f"{machine.rounds} steps, 3 to 5 evaluations",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--only", nargs="+", default=list(SECTIONS), choices=list(SECTIONS), metavar="SECTION")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="pairs of the data in the shape of MovieLens-20M")
    parser.add_argument("--rounds", type=int, help="steps to time; 200 on a GPU, 20 on a CPU")
    parser.add_argument("--epochs", type=int, nargs=2, default=(20, 120), metavar=("WARM_UP", "FINE_TUNING"))
    parser.add_argument("--data", type=Path, help="directory of the prepared data of train; kept and reused")
    parser.add_argument("--movielens-1m", type=Path, metavar="ARCHIVE", help="ml-1m.zip, for sequence-run")
    parser.add_argument(
        "--sequence-changes", nargs="+", default=(), metavar="KEY=VALUE", help="of sequence-run's recipe"
    )
    parser.add_argument("--json", type=Path, help="also write the results as JSON")
    options = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device(options.device)
    rounds = options.rounds or (200 if device.type == "cuda" else 20)
    sizes = {"pairs": options.pairs, "epochs": tuple(options.epochs), "data": options.data}
    sizes |= {"movielens_1m": options.movielens_1m, "sequence_changes": tuple(options.sequence_changes)}
    machine = Machine(device, Ceilings.measure(device), rounds, **sizes)
    table = Table(describe(machine), targets=machine.gpu, file=options.json)
    failed = False
    for name in options.only:
        try:
            table.section(name, SECTIONS[name](machine))
        except Exception:  # the other sections are independent
            failed = True
            traceback.print_exc()
        gc.collect()
        if machine.gpu:
            torch.cuda.empty_cache()
    raise SystemExit(int(failed))


if __name__ == "__main__":
    main()
