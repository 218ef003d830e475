"""Time and peak memory of `songrank recommend` and `songrank rank`, on synthetic models and tables.

python benchmarks/inference.py                                                               # a few minutes
python benchmarks/inference.py --users 20000 --pairs 400000 --documents 20000 --queries 200  # half a minute
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from songrank import models
from songrank.core.csr import CSR
from songrank.core.ids import Ids
from songrank.data.preparation.feature_transform import FeatureTransform
from songrank.models.model_folder import ModelFolder, save_model

NEUMF: dict[str, Any] = {"name": "neumf", "dim": 8, "hidden": [64]}
MLP: dict[str, Any] = {"name": "mlp", "hidden": [64, 32]}
FEATURES = [f"feature {number}" for number in range(1, 51)]


def make_recommender(folder: Path, users: int, items: int, pairs: int) -> None:
    """An untrained NeuMF with ``pairs`` evenly spread seen pairs; user ids are strings."""
    rng, step = np.random.default_rng(0), users * items // pairs
    cell = np.arange(pairs) * step + rng.integers(0, step, pairs)  # ascending and distinct: user × items + item
    item = torch.from_numpy(cell % items)
    first = torch.from_numpy(np.searchsorted(cell, np.arange(users + 1) * items))
    seen: dict[str, Any] = {
        "seen": CSR(first, {"item": item.to(torch.int32)}),
        "item_counts": torch.bincount(item, minlength=items),
    }
    info = {
        "task": "recommendation",
        "inputs": "ids",
        "model": NEUMF,
        "sizes": {"num_queries": users, "num_items": items},
    }
    torch.manual_seed(0)
    known = Ids.from_texts([f"user-{number:09}" for number in range(users)])
    model = models.create(**NEUMF, num_queries=users, num_items=items)
    save_model(ModelFolder(folder, info, model, item_ids=Ids.count(items), query_ids=known, **seen), folder)


def make_ranker(folder: Path, table: Path, documents: int, queries: int) -> None:
    """An untrained MLP with standardised features, and a CSV file of documents with ids, with mixed queries."""
    rng, width = np.random.default_rng(0), len(FEATURES)
    values = rng.standard_normal((documents, width), np.float32)
    transform = FeatureTransform.fit([values[:10_000]], width, standardise=True)
    info = {
        "task": "search",
        "inputs": "documents",
        "model": MLP,
        "sizes": {"num_features": width},
        "features": {"count": width, "names": FEATURES},
        "transform": transform.to_json(),
    }
    torch.manual_seed(0)
    save_model(ModelFolder(folder, info, models.create(**MLP, num_features=width)), folder)
    columns = {
        "qid": rng.permutation(documents) % queries,
        "id": [f"document-{number:09}" for number in range(documents)],
    }
    features = {name: values[:, at] for at, name in enumerate(FEATURES)}
    pl.DataFrame(columns | features).write_csv(table, float_precision=6)


def measure(name: str, words: Sequence[str | Path], threads: int) -> None:
    """Run `songrank WORDS` in a new process, and print its time and memory."""
    command = [sys.executable, "-m", "songrank.cli", *map(str, words), "--device", "cpu", "-q"]
    limit = {"OMP_NUM_THREADS": str(threads), "POLARS_MAX_THREADS": str(threads)}
    start = time.perf_counter()
    _, status, used = os.wait4(os.posix_spawn(command[0], command, os.environ | limit), 0)
    seconds = time.perf_counter() - start
    if status:
        sys.exit(f"songrank {words[0]} ended with {os.waitstatus_to_exitcode(status)}")
    peak = used.ru_maxrss * 1024 / 1e9
    print(f"{name:24s} {seconds:9.1f} s {used.ru_utime + used.ru_stime:9.1f} s {peak:9.2f} GB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=5_000)
    parser.add_argument("--pairs", type=int, default=20_000_000, help="number of seen user-item pairs")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=1, help="threads of torch and of polars")
    options = parser.parse_args()
    if min(vars(options).values()) < 1 or options.pairs > options.users * options.items:
        parser.error("expected numbers of at least 1, and no more pairs than users × items")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recommender, ranker, table = folder / "recommender", folder / "ranker", folder / "documents.csv"
        with ProcessPoolExecutor(1, get_context("spawn")) as maker:  # memory of this process counts for its children
            maker.submit(make_recommender, recommender, options.users, options.items, options.pairs).result()
            maker.submit(make_ranker, ranker, table, options.documents, options.queries).result()
        print("; ".join(f"{word}: {value:,}" for word, value in vars(options).items()))
        print(f"\n{'':24s} {'wall time':>11s} {'CPU time':>11s} {'peak memory':>12s}")
        commands: dict[str, list[str | Path]] = {
            "recommend all -k 10": ["recommend", recommender, "all", "-k", "10", "-o", folder / "best.csv"],
            "rank": ["rank", ranker, table, "-o", folder / "ranked.csv"],
            "rank --sorted": ["rank", ranker, table, "--sorted", "-o", folder / "sorted.csv"],
        }
        for title, words in commands.items():
            measure(title, words, options.threads)


if __name__ == "__main__":
    main()
