"""The work of cells that train: a warm-up, a run that begins with it, and the comparison of runs.

Cells are neighbours: what another cell left lies beside a cell's own folder, under that cell's key.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from songrank.analysis.finished_runs import Method, read_run
from songrank.analysis.method_comparison import compare_methods
from songrank.core.errors import DataError
from songrank.data import open_dataset
from songrank.io.json_files import plain, read_json
from songrank.training.checkpoints import Checkpoints
from songrank.training.config.recipe import Recipe
from songrank.training.run import Run
from songrank.training.run_directory import RunDirectory, fingerprint
from songrank.training.trainer.loop import DivergedError, validation_name

CURVE = "ndcg@5"
"""What the paper's figures show of validation."""


def train(
    folder: Path,
    *,
    recipe: Mapping[str, Any],
    data: str,
    splits: Sequence[str],
    after: str | None,
    path: str,
    device: str,
) -> dict[str, Any]:
    """Train by a recipe, or go on where a killed cell ended.

    Args:
        folder: of the cell; the run lies in ``run``.
        recipe: as plain values, without data and device.
        data: fingerprint of the data set.
        splits: what is evaluated at the end; no other figure is ever computed.
        after: key of the cell whose warm-up this run begins with; None for one that trains its own.
        path: where the data set is.
        device: ``"cpu"`` or ``"cuda"``.

    Returns:
        ``metrics`` by split, ``curve`` (epoch and validation NDCG@5 of the last stage), ``warm_up`` (the same of the
        stage before it), ``epoch`` (that of the model kept) and ``seconds``; or ``diverged``, why there is no model.

    """
    if (lost := diverged_before(folder, after)) is not None:
        return lost
    directory = RunDirectory(folder / "run")
    if directory.notes().get("status") != "finished":
        run = open_run(directory.path, {**recipe, "data": path, "device": device}, data, tuple(splits))
        run.observe = also_watch(run, CURVE)
        begin_after(run, None if after is None else folder.parent / after / "run")
        try:
            run.finish()
        except DivergedError as error:
            return {"diverged": str(error)}
    if after is not None:
        shutil.rmtree(directory.checkpoints, ignore_errors=True)  # nobody begins with this one
    return results(directory, splits)


def open_run(path: Path, recipe: Mapping[str, Any], data: str, splits: tuple[str, ...]) -> Run:
    """A new run, or the one that a killed cell left."""
    given = Recipe.read(dict(recipe))
    dataset = open_dataset(given.data)
    if fingerprint(dataset) != data:
        raise DataError("was prepared anew since this was planned", "run the command again", file=given.data)
    if (path / "config.yaml").exists():
        return Run(RunDirectory(path), given, dataset, splits=splits)
    return Run.begin(given, path, splits=splits)


def diverged_before(folder: Path, after: str | None) -> dict[str, Any] | None:
    """The result of a run whose warm-up diverged; None if it did not."""
    file = folder.parent / str(after) / "result.json"
    if after is None or not file.exists():
        return None
    why = read_json(file, "delete it: it is done again")["result"].get("diverged")
    return None if why is None else {"diverged": f"its warm-up diverged: {why}"}


def begin_after(run: Run, earlier: Path | None) -> None:
    """Put a run that has not begun to where a run of its warm-up alone ended: weights, generators, history.

    The rest then comes out as if the run had made the warm-up itself.
    """
    kept = run.trainer.checkpoints
    assert kept is not None
    if earlier is None or kept.steps():
        return
    found = RunDirectory(earlier).checkpoints
    last = max(found.glob("step-*"), default=None)
    if last is None:
        raise DataError("holds no warm-up", "delete the cell that it belongs to, and run again", file=str(found))
    past = Checkpoints(found, owner=read_json(last / "state.json")["owner"]).latest()
    assert past is not None
    step, state = past
    fresh = run.trainer.state_dict()
    for part in ("losses", "samplers"):
        state[part] = [*state[part][:1], *fresh[part][1:]]
    kept.save(step, state)


def also_watch(run: Run, metric: str) -> Callable[[dict[str, Any]], None]:
    """Write a second validation figure into the history, wherever there is a first one."""
    watch = run.recipe.validation
    first, second = (validation_name(name, watch.candidates) for name in (watch.metric, metric))

    def observe(line: dict[str, Any]) -> None:
        if first in line and second not in line:
            line[second] = run.trainer.validate(metric)
            run.directory.rewrite_history(run.trainer.at.history)

    return observe


def results(directory: RunDirectory, splits: Sequence[str]) -> dict[str, Any]:
    """What a finished run came to, from its files."""
    watch = directory.recipe().validation
    lines = [json.loads(line) for line in directory.history.read_text(encoding="utf-8").splitlines()]
    by_stage = {stage: [line for line in lines if line["stage"] == stage] for stage in ("warm-up", "fine-tuning")}
    last = by_stage["fine-tuning"] or by_stage["warm-up"]
    chosen, curve = (validation_name(metric, watch.candidates) for metric in (watch.metric, CURVE))
    best = max((line for line in last if chosen in line), key=lambda line: line[chosen], default=last[-1])
    evaluations = {split: read_json(directory.path / "evaluation" / f"{split}.json") for split in splits}
    return {
        "metrics": {split: found["metrics"] for split, found in evaluations.items()},
        "curve": _points(last, curve),
        "warm_up": _points(by_stage["warm-up"], curve),
        "epoch": best["epoch"],
        "seconds": directory.notes()["seconds"],
    }


def _points(lines: Sequence[Mapping[str, Any]], key: str) -> list[list[float]]:
    return [[line["epoch"], line[key]] for line in lines if key in line]


def compare(
    folder: Path, *, runs: Mapping[str, Sequence[str]], metrics: Sequence[str], baseline: str
) -> dict[str, Any]:
    """Means over seeds, and differences to a baseline, paired by query and seed, with 95 % intervals.

    Args:
        folder: of the cell.
        runs: keys of the cells of each method's runs on test.
        metrics: which.
        baseline: one of the methods.

    """
    methods = [
        Method(name, tuple(read_run(folder.parent / key / "run") for key in keys)) for name, keys in runs.items()
    ]
    found: dict[str, Any] = plain(compare_methods(methods, metrics=list(metrics), baseline=baseline).figures())
    return found
