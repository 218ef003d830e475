"""A CPU step of NeuMF with SONG in the shape of MovieLens-1M, before and after glibc is set to keep freed memory.

    python benchmarks/freed_memory.py --threads 1 2

Each number of threads has its own process. The setting cannot be reverted, so "before" is first. Compare the ratio.
"""

from __future__ import annotations

import argparse
import multiprocessing
from typing import Any

import torch
from shapes import long_tailed
from stepping import MemoryAdapter, TrainingStep, make_loss
from timing import medians

from songrank import models
from songrank.core.allocator import keep_freed_memory

USERS, FILMS, RATINGS = 6_040, 3_706, 1_000_209
SLATE: dict[str, Any] = {"queries_per_batch": 256, "relevant": 10, "irrelevant": 300}


def measure(threads: int, rounds: int) -> tuple[float, float]:
    """Milliseconds per step before and after."""
    torch.set_num_threads(threads)
    relevance = long_tailed(USERS, FILMS, RATINGS)
    model = models.create("neumf", num_queries=USERS, num_items=FILMS)
    step = TrainingStep(model, MemoryAdapter(relevance), make_loss("song", relevance), **SLATE)
    before = medians({"step": step}, rounds)["step"]
    if not keep_freed_memory():
        raise SystemExit("this C library is not glibc, which the comparison needs")
    return before, medians({"step": step}, rounds)["step"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    for threads in options.threads:
        with multiprocessing.get_context("spawn").Pool(1) as alone:
            before, after = alone.apply(measure, (threads, options.rounds))
        gain = f"{before / after:.2f} × as fast"
        print(f"threads {threads}: {before:.1f} ms per step; {after:.1f} ms with freed memory kept, {gain}", flush=True)


if __name__ == "__main__":
    main()
