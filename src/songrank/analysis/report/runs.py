"""The runs that a report is about, as far as their folders and their data can still be read."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from songrank.analysis.finished_runs import FinishedRun, check_lists, read_run
from songrank.analysis.report.curves import History, read_history
from songrank.core.errors import DataError, UserError
from songrank.data import Dataset, open_dataset
from songrank.io.json_files import read_json
from songrank.training.run import Run
from songrank.training.run_directory import RunDirectory

T = TypeVar("T")


@dataclass(frozen=True)
class Missing:
    """Why a part of the report is not there, in one line."""

    why: str


def attempt(make: Callable[[], T]) -> T | Missing:
    """What is made, or why it cannot be."""
    try:
        return make()
    except UserError as error:
        return Missing(str(error))


@dataclass(frozen=True, eq=False)
class ReportedRun:
    """One run's folder, read as far as possible: ``notes`` are ``run.json``, ``history`` is ``metrics.jsonl``.

    ``evaluations`` are those that can be read, by split; ``unread`` says why the report's split is not among them.
    """

    path: Path
    config: dict[str, Any]
    notes: dict[str, Any]
    history: History | Missing
    evaluations: dict[str, FinishedRun]
    unread: Missing | None

    @property
    def task(self) -> str | None:
        """The task as ``model.json`` has it; None if that is missing."""
        found = attempt(lambda: read_json(self.path / "model.json").get("task"))
        return found if isinstance(found, str) else None

    @property
    def seed(self) -> int:
        """The seed it was trained with."""
        return int(self.config["seed"])


def read_folder(path: Path, split: str, *, finished: bool) -> ReportedRun:
    """Read a run's folder; one that is not evaluated on ``split`` is an error only if it has to be ``finished``."""
    evaluations, unread = {}, None
    for name in dict.fromkeys((split, "test", "validation")):
        try:
            evaluations[name] = read_run(path, name)
        except DataError as error:
            if name == split and finished:
                raise
            unread = Missing(str(error)) if name == split else unread
    directory = RunDirectory(path)
    notes = attempt(directory.notes)
    first = next(iter(evaluations.values()), None)
    config = first.config if first is not None else directory.recipe().model_dump(mode="json")
    history = attempt(lambda: read_history(path))
    return ReportedRun(path, config, {} if isinstance(notes, Missing) else notes, history, evaluations, unread)


def open_data(run: ReportedRun, split: str, data: Path | None) -> Dataset:
    """The data set of a run, where it was or where it is now; a ``UserError`` where it is not the same any more."""
    dataset = open_dataset(data if data is not None else Path(str(run.config.get("data", ""))))
    RunDirectory(run.path).check_data(dataset)
    if split not in dataset:
        raise DataError(f"has no {split} split", f"it has {', '.join(dataset)}", file=str(dataset.path))
    if split in run.evaluations:
        check_lists(run.evaluations[split], dataset, split)
    return dataset


def rebuild(run: ReportedRun, dataset: Dataset, device: str) -> Run:
    """The run with model, losses and data adapter on a device, as before its first step; its folder is not changed."""
    if not (run.path / "run.json").exists():
        raise UserError("the folder was not written by `songrank train`, so its model cannot be built again")
    directory = RunDirectory(run.path)
    recipe = directory.recipe().model_copy(update={"device": device, "members": None})
    with torch.random.fork_rng(devices=[]):
        return Run(directory, recipe, dataset)
