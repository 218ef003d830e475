"""The work of training cells: a warm-up, a run that continues it, and the comparison of runs.

The directories of all cells are siblings, named by the keys of the cells.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from songrank.analysis.finished_runs import Method, read_run
from songrank.analysis.method_comparison import compare_methods
from songrank.analysis.report.curves import chosen_epoch, read_history
from songrank.analysis.trials import run_trial
from songrank.core.errors import DataError
from songrank.data import open_dataset
from songrank.io.json_files import plain, read_json
from songrank.training.config.recipe import Recipe
from songrank.training.run import Run
from songrank.training.run_directory import RunDirectory, fingerprint
from songrank.training.trainer.loop import NoMemoryError, validation_name

CURVE = "ndcg@5"
"""The validation metric of the paper's figures."""


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
    """Train a recipe, or resume a killed cell.

    Args:
        folder: directory of the cell; the run directory is ``run``.
        recipe: recipe as plain values, without data and device.
        data: fingerprint of the data set.
        splits: splits to evaluate at the end; no others are evaluated.
        after: key of the cell whose warm-up this run continues; None for a run with its own warm-up.
        path: path of the data set.
        device: ``"cpu"`` or ``"cuda"``.

    Returns:
        ``metrics`` by split, ``curve`` (epoch and validation NDCG@5 of the last stage), ``warm_up`` (the same of the
        stage before), ``epoch`` (of the best checkpoint) and ``seconds``; or ``diverged``, the reason of the failure.
    """
    given = {**recipe, "data": path, "device": device}
    if (lost := finish_run(folder, given, data, splits, after=after, opened=watch_curve)) is not None:
        return lost
    if after is not None:
        shutil.rmtree(RunDirectory(folder / "run").checkpoints, ignore_errors=True)  # no other run continues this one
    return results(RunDirectory(folder / "run"), splits)


def finish_run(
    folder: Path,
    recipe: Mapping[str, Any],
    data: str,
    splits: Sequence[str],
    *,
    after: str | None = None,
    opened: Callable[[Run], None] = lambda run: None,
) -> dict[str, Any] | None:
    """Run the trial of a cell; returns ``diverged`` with the reason if training failed, else None."""
    given = Recipe.read(dict(recipe))
    if after is not None and (file := folder.parent / after / "result.json").exists():
        why = read_json(file, "delete it to run the cell again")["result"].get("diverged")
        if why is not None:
            return {"diverged": f"its warm-up diverged: {why}"}
    if fingerprint(open_dataset(given.data)) != data:
        raise DataError("was prepared again in the meantime", "run the command again", file=given.data)
    earlier = None if after is None else folder.parent / after / "run"
    found = run_trial(given, folder / "run", splits, after=earlier, opened=opened)
    assert found is not None  # runs are not stopped here
    if isinstance(found.error, NoMemoryError):  # due to the machine, not to the setting
        raise found.error
    return None if found.error is None else {"diverged": str(found.error)}


def watch_curve(run: Run) -> None:
    """Record the validation metric of the paper's figures in a run."""
    run.observe = also_watch(run, CURVE)


def also_watch(run: Run, metric: str) -> Callable[[dict[str, Any]], None]:
    """Add a second validation metric to the history wherever there is a first one."""
    watch = run.recipe.validation
    first, second = (validation_name(name, watch.candidates) for name in (watch.metric, metric))

    def observe(line: dict[str, Any]) -> None:
        if first in line and second not in line:
            line[second] = run.trainer.validate(metric)
            run.directory.rewrite_history(run.trainer.at.history)

    return observe


def results(directory: RunDirectory, splits: Sequence[str]) -> dict[str, Any]:
    """The result of a finished run, from its files."""
    lines = read_history(directory.path)
    by_stage = {stage: [line for line in lines if line["stage"] == stage] for stage in ("warm-up", "fine-tuning")}
    watch = directory.recipe().validation
    chosen, curve = (validation_name(metric, watch.candidates) for metric in (watch.metric, CURVE))
    evaluations = {split: read_json(directory.path / "evaluation" / f"{split}.json") for split in splits}
    return {
        "metrics": {split: found["metrics"] for split, found in evaluations.items()},
        "curve": _points(by_stage["fine-tuning"] or by_stage["warm-up"], curve),
        "warm_up": _points(by_stage["warm-up"], curve),
        "epoch": lines[chosen_epoch(lines, chosen) - 1]["epoch"],
        "seconds": directory.notes()["seconds"],
    }


def _points(lines: Sequence[Mapping[str, Any]], key: str) -> list[list[float]]:
    return [[line["epoch"], line[key]] for line in lines if key in line]


def compare(
    folder: Path, *, runs: Mapping[str, Sequence[str]], metrics: Sequence[str], baseline: str
) -> dict[str, Any]:
    """Means over seeds, and differences to a baseline, paired by query and seed, with 95 % intervals.

    Args:
        folder: directory of the cell.
        runs: keys of the cells of each method's runs on test.
        metrics: names of metrics.
        baseline: one of the methods.
    """
    methods = [
        Method(name, tuple(read_run(folder.parent / key / "run") for key in keys)) for name, keys in runs.items()
    ]
    found: dict[str, Any] = plain(compare_methods(methods, metrics=list(metrics), baseline=baseline).figures())
    return found
