"""Rows of speed.py: ``songrank train`` as a process, with the recipe for MovieLens-20M."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from floors import Work, catalogue_evaluation, neumf_pairs, neumf_step
from speed_machine import DIM, IRRELEVANT, PAIRS, QUERIES, RELEVANT, ROWS, Machine
from speed_step import MEMORY_TARGET
from speed_table import Row

from songrank.data import Dataset, open_dataset, prepare
from songrank.training.run_directory import RunDirectory

RECIPE, EVERY, CANDIDATES, SECONDS_TARGET = "movielens-20m", 5, 1000, 60.0

_COMMAND = """
import json, torch
from songrank.cli import main
try:
    main()
finally:
    print(json.dumps({"peak": torch.cuda.max_memory_allocated(), "held": torch.cuda.max_memory_reserved()}), flush=True)
"""
_WITHOUT_COMMAND = """
import json, sys
from songrank.training.config.recipe_files import load_recipe
from songrank.training.run import Run
recipe, folder, *changes = sys.argv[1:]
Run.begin(load_recipe(recipe, changes), folder, observe=lambda line: print(json.dumps(line), flush=True)).finish()
"""


def train_rows(machine: Machine) -> list[Row]:
    """Wall time and its parts, the lower bound of all steps and evaluations, and GPU memory."""
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        dataset = _data(machine, machine.data or scratch / "data")
        seconds, lines, notes = _train(machine, dataset, scratch / "run")
    warm_up, fine_tuning = machine.epochs
    memory = [line for _, line in lines if "peak" in line]
    lines = [(second, line) for second, line in lines if "stage" in line]
    name = f"songrank train, {warm_up} + {fine_tuning} epochs, and test"
    target = SECONDS_TARGET if machine.epochs == (20, 120) and machine.pairs == PAIRS else None
    notes = [_where(lines, seconds), f"{dataset.num_queries:,} users, {dataset.num_pairs:,} pairs", *notes]
    rows = [Row(name, seconds, "s", target, machine.floor(_work(machine, dataset)) / 1e3, notes=notes)]
    if machine.gpu and memory:
        held = f"peak memory reserved by torch {memory[0]['held'] / 1e9:.2f} GB"
        rows.append(Row("  peak GPU memory", memory[0]["peak"] / 1e9, "GB", MEMORY_TARGET, notes=[held]))
    return rows


def _data(machine: Machine, folder: Path) -> Dataset:
    """Synthetic data in the shape of MovieLens-20M; fewer pairs mean fewer users. An existing data set is reused."""
    if (folder / "dataset.json").exists():
        return open_dataset(folder)
    share = machine.pairs / PAIRS
    fewer: dict[str, Any] = {} if share >= 1 else {"queries": max(ROWS, round(QUERIES * share)), "pairs": machine.pairs}
    return prepare("synthetic", None, folder, shape=RECIPE, **fewer)


def _train(
    machine: Machine, dataset: Dataset, run: Path
) -> tuple[float, list[tuple[float, dict[str, Any]]], list[str]]:
    """Wall time, the lines of the history with their times, and notes."""
    changes = [f"data={dataset.path}", f"device={machine.device.type}", f"validation.every={EVERY}"]
    changes += [f"warm_up.epochs={machine.epochs[0]}", f"fine_tuning.epochs={machine.epochs[1]}"]
    command = [sys.executable, "-c", _COMMAND, "train", RECIPE, *changes, "-o", str(run), "--json"]
    notes = []
    if importlib.util.find_spec("typer") is None:
        command = [sys.executable, "-c", _WITHOUT_COMMAND, RECIPE, str(run), *changes]
        notes = ["typer is not installed: the same run without the command line"]
    begun, lines = time.perf_counter(), []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for text in process.stdout:
            line = json.loads(text)
            if "stage" in line or "peak" in line:
                lines.append((time.perf_counter() - begun, line))
    seconds = time.perf_counter() - begun
    if process.returncode:
        raise SystemExit(f"songrank train ended with {process.returncode}")
    phases = RunDirectory(run).notes().get("phase_seconds", {})
    notes.append("phases in run.json: " + ", ".join(f"{name} {value:.1f} s" for name, value in phases.items()))
    return seconds, lines, notes


def _where(lines: list[tuple[float, dict[str, Any]]], seconds: float) -> str:
    """Start-up, steps, validation and end, by the times of lines; an epoch without validation has only steps."""
    steps = validation = 0.0
    usual: dict[str, float] = {}
    for stage in dict.fromkeys(line["stage"] for _, line in lines):
        plain = [
            there - here
            for (here, before), (there, after) in pairwise(lines)
            if before["stage"] == after["stage"] == stage and not _validated(after)
        ]
        if not plain:
            return "too few epochs to split the time"
        usual[stage] = statistics.median(plain)
    for (here, before), (there, after) in pairwise(lines):
        expected = usual[after["stage"]]
        steps += expected
        if _validated(after) and before["stage"] == after["stage"]:
            validation += there - here - expected
    steps += usual[lines[0][1]["stage"]]
    start_up = lines[0][0] - usual[lines[0][1]["stage"]]
    end = seconds - lines[-1][0]
    other = seconds - start_up - steps - validation - end
    return (
        f"steps {steps:.1f} s, validation {validation:.1f} s, start-up {start_up:.1f} s, "
        f"final evaluation and files {end:.1f} s, other {other:.1f} s"
    )


def _validated(line: dict[str, Any]) -> bool:
    return any(name.startswith("validation") for name in line)


def _work(machine: Machine, dataset: Dataset) -> Work:
    """Lower bound of all steps, of validation on sampled candidates, and of the final evaluations on all items."""
    users, items, epochs = dataset.num_queries, dataset.num_items, machine.epochs
    step = neumf_step(users, items, DIM, ROWS, RELEVANT + IRRELEVANT)
    steps = sum(epochs) * -(-users // ROWS)
    validations = sum(-(-count // EVERY) for count in epochs)
    sampled = neumf_pairs(users * (CANDIDATES + 1), items, DIM)
    final = catalogue_evaluation(users, items, DIM, dataset.num_pairs)
    return step.times(steps) + sampled.times(validations) + final.times(2)
