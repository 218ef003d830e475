"""Rows of speed.py: what precedes any work, the imports of commands and of the library."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import torch
from speed_machine import Machine
from speed_table import Row
from timing import medians

from songrank import Relevance
from songrank.core.csr import CSR, segment_rows
from songrank.core.pairs import latest_pairs_by_key, sorted_rows

TARGET, IMPORT_TARGET, RELEVANCE_TARGET = 0.5, 0.3, 0.5
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
    steps = {
        "python -c pass": partial(run, "-c", "pass"),
        "python -c 'import torch'": partial(run, "-c", "import torch"),
    }
    steps |= {words: partial(run, "-m", "songrank", *words.split()) for words in _COMMANDS}
    taken = {name: value / 1e3 for name, value in medians(steps, 5, 1).items()}
    floor, torch_alone = (taken.pop(name) for name in list(taken)[:2])
    for words, seconds in taken.items():
        yield Row(f"songrank {words}", seconds, "s", TARGET, floor, {"python -c 'import torch'": torch_alone})
    seconds = sorted(float(run("-c", _IMPORT)) for _ in range(5))[2]
    yield Row("import songrank and all its names, beyond torch", seconds, "s", IMPORT_TARGET)
    yield relevance_row(machine)


def relevance_row(machine: Machine) -> Row:
    """The relevance of a prepared data set on a CPU, whose rows are in order of time: the pairs are to be sorted."""
    relevance = machine.relevance.to("cpu")
    query = segment_rows(relevance.num_relevant)
    time = torch.rand(query.shape[0], generator=torch.Generator().manual_seed(0))
    order = time.argsort()
    order = order[query[order].argsort(stable=True)]
    pairs = CSR(relevance.indptr, {"item": relevance.item[order], "label": relevance.label[order]})
    queries, items = relevance.num_queries, relevance.num_items

    def fast() -> Relevance:
        rows = sorted_rows(pairs, items)
        assert rows is not None
        return Relevance.from_rows(rows, items)

    def plain() -> Relevance:
        return Relevance.from_keys(*latest_pairs_by_key(pairs, items), queries, items)

    assert torch.equal(fast().item, plain().item)
    assert torch.equal(fast().label, plain().label)
    taken = {name: value / 1e3 for name, value in medians({"ours": fast, "sort of keys": plain}, 5, 1).items()}
    name = f"relevance of {relevance.num_pairs:,} pairs from a prepared data set, CPU"
    return Row(name, taken.pop("ours"), "s", RELEVANCE_TARGET, peers=taken)
