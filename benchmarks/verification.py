"""The cost of checksums: `prepare`, training and opening a data set, with verification and without, in turn.

    python benchmarks/verification.py --pairs 20000000

Times of `prepare` and of training are seconds of CPU, so that other work on the machine counts little; those of
opening are wall-clock times.
"""

import argparse
import hashlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import torch

from songrank.data import open_dataset, prepare
from songrank.io import arrays, verification
from songrank.training import Run, load_recipe

SHORT = ["warm_up.epochs=1", "fine_tuning.epochs=2", "validation.every=0", "device=cpu"]


class _NoHash:
    """Stands for SHA-256, and computes nothing."""

    def __init__(self, data: bytes = b"") -> None:
        pass

    def update(self, data: bytes) -> None:
        """Nothing."""

    def hexdigest(self) -> str:
        """Always the same."""
        return "0" * 64


@contextmanager
def without_checksums() -> Iterator[None]:
    """Neither compute nor compare checksums of arrays and weights; those of small JSON files remain."""
    none = SimpleNamespace(**{**vars(hashlib), "sha256": _NoHash})
    with (
        patch.object(arrays, "hashlib", none),
        patch.object(arrays, "file_digests", lambda *told: ["0" * 64]),
        patch.object(verification, "check_sha256", lambda *told: None),
    ):
        yield


def ratio(name: str, work: Callable[[Path], None], place: Path, rounds: int) -> None:
    """Print the time of ``work`` with checksums and without, and the ratio of their medians."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for at in range(-1, rounds):
        for number, checked in enumerate((True, False) if at % 2 else (False, True)):
            target = place / f"{name}-{at}-{number}"
            begun = time.process_time()
            if checked:
                work(target)
            else:
                with without_checksums():
                    work(target)
            if at >= 0:  # the first round warms up
                seconds[checked].append(time.process_time() - begun)
    on, off = statistics.median(seconds[True]), statistics.median(seconds[False])
    print(f"| {name} | {on:.3f} s | {off:.3f} s | {on / off - 1:+.1%} |", flush=True)


def opening(place: Path, rounds: int) -> None:
    """Print milliseconds to open a data set: the first time, later, always verified, and not verified."""

    def milliseconds(verify: bool | None) -> float:
        begun = time.perf_counter()
        open_dataset(place, verify=verify)
        return 1e3 * (time.perf_counter() - begun)

    print("\n| opening | time |\n|---|---|")
    print(f"| first | {milliseconds(None):,.0f} ms |")
    for name, verify in (("verified before", None), ("`verify=True`", True), ("`verify=False`", False)):
        print(f"| {name} | {statistics.median(milliseconds(verify) for _ in range(rounds)):,.1f} ms |")


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table to prepare")
    parser.add_argument("--pairs", type=int, default=20_000_000, help="pairs of the data set to open")
    parser.add_argument("--rounds", type=int, default=7)
    told = parser.parse_args()
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="verification-") as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder) / "cache")
        whole = Path(folder) / "whole"
        users = told.pairs // 100
        prepare("synthetic", None, whole, queries=users, items=max(1000, users // 5), pairs=told.pairs)
        table = {"user": random.integers(0, told.rows // 50, told.rows), "time": np.arange(told.rows)}
        table["item"] = random.integers(0, 20_000, told.rows)
        small = {name: column[: told.rows // 10] for name, column in table.items()}
        data = prepare("interactions", small, Path(folder) / "data").path

        def train(target: Path) -> None:
            Run.begin(load_recipe("recommendation", [f"data={data}", *SHORT]), target, save_every=5.0).finish()

        print("| work | with checksums | without | difference |\n|---|---|---|---|")
        ratio("prepare", lambda target: void(prepare("interactions", table, target)), Path(folder), told.rounds)
        ratio("train", train, Path(folder), told.rounds)
        opening(whole, told.rounds)


def void(result: object) -> None:
    """Ignore a result."""


if __name__ == "__main__":
    main()
