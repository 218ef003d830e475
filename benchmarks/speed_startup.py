"""Rows of speed.py: what precedes any work, the imports of commands and of the library."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from speed_machine import Machine
from speed_table import Row
from timing import medians

TARGET, IMPORT_TARGET = 0.5, 0.3
_COMMANDS = ("--help", "data list", "recipes")
_IMPORT = """
import time, numpy, torch
start = time.perf_counter()
import songrank
for name in songrank.__all__:
    if name not in ("DocumentRanker", "LabelRanker", "Recommender"):
        getattr(songrank, name)
print(time.perf_counter() - start)
"""


def run(*words: str) -> str:
    """Output of Python with these arguments."""
    return subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True).stdout


def startup_rows(machine: Machine) -> Iterator[Row]:
    """Commands that import no torch, and the import of all names but the estimators beyond torch and numpy."""
    steps = {"python -c pass": lambda: run("-c", "pass"), "python -c 'import torch'": lambda: run("-c", "import torch")}
    steps |= {words: lambda words=words: run("-m", "songrank", *words.split()) for words in _COMMANDS}
    taken = {name: value / 1e3 for name, value in medians(steps, 5, 1).items()}
    floor, torch_alone = (taken.pop(name) for name in list(taken)[:2])
    for words, seconds in taken.items():
        yield Row(f"songrank {words}", seconds, "s", TARGET, floor, {"python -c 'import torch'": torch_alone})
    seconds = sorted(float(run("-c", _IMPORT)) for _ in range(5))[2]
    yield Row("import songrank and all its names, beyond torch", seconds, "s", IMPORT_TARGET)
