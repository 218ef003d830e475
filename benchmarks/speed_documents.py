"""Rows of speed.py: reading LETOR text and fitting DocumentRanker, compared with XGBoost and LightGBM."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from peers import installed
from speed_machine import Machine
from speed_table import Row
from timing import medians

from songrank import DocumentRanker
from songrank.data.parsers.svmlight import parse_rows

PARSE_TARGET, FIT_TARGET = 1.0, 2.0  # relative to XGBoost's reader and to LGBMRanker
QUERIES, DOCUMENTS, FEATURES = 471, 20, 46  # about the training part of a fold of MQ2008
_MEGABYTES = 20


def document_rows(machine: Machine) -> list[Row]:
    """On a CPU, with the threads of this process."""
    generator = np.random.default_rng(0)
    features = generator.random((QUERIES * DOCUMENTS, FEATURES), dtype=np.float32).round(6)
    utility = features[:, :8] @ generator.standard_normal(8) + 0.3 * generator.standard_normal(len(features))
    labels = np.digitize(utility, np.quantile(utility, [0.8, 0.95])).astype(np.float32)
    return [_reading(features, labels), _fitting(features, labels)]


def _reading(features: np.ndarray, labels: np.ndarray) -> Row:
    query = np.repeat(np.arange(QUERIES), DOCUMENTS)
    lines = [
        f"{int(label)} qid:{number} " + " ".join(f"{at}:{value:.6f}" for at, value in enumerate(values, 1))
        for label, number, values in zip(labels, query, features.tolist(), strict=True)
    ]
    text = ("\n".join(lines) + "\n").encode()
    text *= -(-_MEGABYTES * 10**6 // len(text))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.txt")
        path.write_bytes(text)
        ways: dict[str, Callable[[], object]] = {"": lambda: parse_rows(path.read_bytes(), file=path.name)}
        if installed("xgboost"):
            matrix = importlib.import_module("xgboost").DMatrix
            ways["XGBoost"] = lambda: matrix(f"{path}?format=libsvm")
        taken = {name: value / 1e3 for name, value in medians(ways, 3, 1).items()}
    seconds = taken.pop("")
    target = PARSE_TARGET * taken["XGBoost"] if taken else None
    note = f"{len(text) / 1e6 / seconds:.0f} MB per second; `python benchmarks/parse_letor.py` reads real files"
    return Row(f"reading {len(text) / 1e6:.0f} MB of LETOR text", seconds, "s", target, None, taken, [note])


def _fitting(features: np.ndarray, labels: np.ndarray) -> Row:
    group = np.full(QUERIES, DOCUMENTS)
    ways: dict[str, Callable[[], object]] = {"": lambda: DocumentRanker(verbose=0).fit(features, labels, group=group)}
    if installed("lightgbm"):
        ranker = importlib.import_module("lightgbm").LGBMRanker
        threads = torch.get_num_threads()
        ways["LGBMRanker"] = lambda: ranker(n_jobs=threads, verbose=-1).fit(features, labels.astype(int), group=group)
    taken = {name: value / 1e3 for name, value in medians(ways, 3, 1).items()}
    seconds = taken.pop("")
    target = FIT_TARGET * taken["LGBMRanker"] if taken else None
    note = f"{QUERIES} queries × {DOCUMENTS} documents × {FEATURES} features, defaults of both"
    return Row("DocumentRanker().fit", seconds, "s", target, None, taken, [note])
