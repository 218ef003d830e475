"""Rows of speed.py: ``songrank train`` as a process: MovieLens-20M's shape, and the sequence model on MovieLens-1M."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from floors import Work, catalogue_evaluation, neumf_pairs, neumf_step, sequence_step
from speed_machine import DIM, IRRELEVANT, PAIRS, QUERIES, RELEVANT, ROWS, Machine
from speed_step import MEMORY_TARGET
from speed_table import Row
from timing import medians

from songrank.data import Dataset, open_dataset, prepare
from songrank.training.config.recipe import Recipe
from songrank.training.run_directory import RunDirectory

RECIPE, EVERY, CANDIDATES, SECONDS_TARGET = "movielens-20m", 5, 1000, 32.0
START_UP, OTHER, END = "start-up", "other", "final evaluation and files"
PART_TARGETS = {START_UP: 5.0, OTHER: 4.0, END: 2.0}
OPEN_TARGET = 0.5
SEQUENCES, SEQUENCES_TARGET = "movielens-1m-sequences", 45.0

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
        opening = _opening(dataset)
        changes = [f"device={machine.device.type}", f"validation.every={EVERY}"]
        changes += [f"warm_up.epochs={machine.epochs[0]}", f"fine_tuning.epochs={machine.epochs[1]}"]
        seconds, lines, notes = _train(RECIPE, dataset, scratch / "run", changes)
    warm_up, fine_tuning = machine.epochs
    memory = [line for _, line in lines if "peak" in line]
    lines = [(second, line) for second, line in lines if "stage" in line]
    name = f"songrank train, {warm_up} + {fine_tuning} epochs, and test"
    target = SECONDS_TARGET if machine.epochs == (20, 120) and machine.pairs == PAIRS else None
    parts = _parts(lines, seconds)
    notes = [_described(parts), f"{dataset.num_queries:,} users, {dataset.num_pairs:,} pairs", *notes]
    rows = [Row(name, seconds, "s", target, machine.floor(_work(machine, dataset)) / 1e3, notes=notes)]
    if machine.gpu and memory:
        held = f"peak memory reserved by torch {memory[0]['held'] / 1e9:.2f} GB"
        rows.append(Row("  peak GPU memory", memory[0]["peak"] / 1e9, "GB", MEMORY_TARGET, notes=[held]))
    for part, most in PART_TARGETS.items() if parts else ():
        note = ["compilation and capture, and work between epochs"] if part == OTHER else []
        rows.append(Row(f"  {part}", parts[part], "s", most if target else None, notes=note))
    name = f"opening {dataset.num_pairs:,} pairs, and their relevance, CPU"
    return [*rows, Row(name, opening, "s", OPEN_TARGET if machine.pairs == PAIRS else None)]


def _opening(dataset: Dataset) -> float:
    """Seconds to open a prepared data set and to build the relevance of its training part, with a warm page cache."""
    return medians({"": lambda: open_dataset(dataset.path).relevance("train")}, 3, 1)[""] / 1e3


def sequence_run_rows(machine: Machine) -> list[Row]:
    """The recipe for MovieLens-1M's sequences, from the archive."""
    name = f"songrank train {SEQUENCES}"
    if machine.movielens_1m is None:
        return [Row(name, None, notes=["skipped: pass --movielens-1m ml-1m.zip, the archive of MovieLens-1M"])]
    if not machine.gpu and not machine.sequence_changes:
        return [Row(name, None, notes=["skipped on a CPU: pass --sequence-changes warm_up.epochs=1 … for a small run"])]
    changes = [f"device={machine.device.type}", *machine.sequence_changes]
    with tempfile.TemporaryDirectory() as folder:
        dataset = prepare("movielens-1m", machine.movielens_1m, Path(folder, "data"))
        seconds, lines, notes = _train(SEQUENCES, dataset, Path(folder, "run"), changes)
        directory = RunDirectory(Path(folder, "run"))
        floor = machine.floor(_sequence_work(directory.recipe(), dataset)) / 1e3
    results = next(line for _, line in lines if "test" in line)["test"]
    lines = [(second, line) for second, line in lines if "stage" in line]
    notes.append("test: " + ", ".join(f"{metric} {value:.4f}" for metric, value in results.items()))
    target = None if machine.sequence_changes else SEQUENCES_TARGET
    return [Row(name, seconds, "s", target, floor, notes=[_described(_parts(lines, seconds)), *notes])]


def _data(machine: Machine, folder: Path) -> Dataset:
    """Synthetic data in the shape of MovieLens-20M; fewer pairs mean fewer users. An existing data set is reused."""
    if (folder / "dataset.json").exists():
        return open_dataset(folder)
    share = machine.pairs / PAIRS
    fewer: dict[str, Any] = {} if share >= 1 else {"queries": max(ROWS, round(QUERIES * share)), "pairs": machine.pairs}
    return prepare("synthetic", None, folder, shape=RECIPE, **fewer)


def _train(
    recipe: str, dataset: Dataset, run: Path, changes: Sequence[str]
) -> tuple[float, list[tuple[float, dict[str, Any]]], list[str]]:
    """Wall time, the lines of the history with their times, and notes."""
    changes = [f"data={dataset.path}", *changes]
    command = [sys.executable, "-c", _COMMAND, "train", recipe, *changes, "-o", str(run), "--json"]
    notes = []
    if importlib.util.find_spec("typer") is None:
        command = [sys.executable, "-c", _WITHOUT_COMMAND, recipe, str(run), *changes]
        notes = ["typer is not installed: the same run without the command line"]
    begun, lines = time.perf_counter(), []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for text in process.stdout:
            line = json.loads(text)
            if {"stage", "peak", "test"} & line.keys():
                lines.append((time.perf_counter() - begun, line))
    seconds = time.perf_counter() - begun
    if process.returncode:
        raise SystemExit(f"songrank train ended with {process.returncode}")
    phases = RunDirectory(run).notes().get("phase_seconds", {})
    notes.append("phases in run.json: " + ", ".join(f"{name} {value:.1f} s" for name, value in phases.items()))
    return seconds, lines, notes


def _parts(lines: list[tuple[float, dict[str, Any]]], seconds: float) -> dict[str, float]:
    """Seconds of steps, validation, start-up, end and the rest, by the times of lines; {} with too few epochs.

    An epoch without validation has only steps.
    """
    steps = validation = 0.0
    usual: dict[str, float] = {}
    for stage in dict.fromkeys(line["stage"] for _, line in lines):
        plain = [
            there - here
            for (here, before), (there, after) in pairwise(lines)
            if before["stage"] == after["stage"] == stage and not _validated(after)
        ]
        if not plain:
            return {}
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
    return {"steps": steps, "validation": validation, START_UP: start_up, END: end, OTHER: other}


def _described(parts: dict[str, float]) -> str:
    listed = ", ".join(f"{name} {value:.1f} s" for name, value in parts.items())
    return listed or "too few epochs to split the time"


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


def _sequence_work(recipe: Recipe, dataset: Dataset) -> Work:
    """Lower bound of all steps of a sequence model over all items, without evaluations."""
    dim, blocks, length = (recipe.model[name] for name in ("dim", "blocks", "length"))
    histories = dataset["train"].offsets.diff()
    entries = float((histories - 1).clamp(0, length).sum())
    queries = recipe.batch.queries
    assert isinstance(queries, int)
    steps = -(-int((histories > 1).sum()) // queries)
    weights = (dataset.num_items + length + 12 * dim * blocks) * dim
    step = sequence_step(entries / steps, dataset.num_items, weights, dim, blocks)
    return step.times(steps * (recipe.warm_up.epochs + recipe.fine_tuning.epochs))
