"""The runs that a report is about, as far as their folders and their data can still be read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from songrank.analysis.finished_runs import FinishedRun, read_run
from songrank.core.errors import DataError, UserError
from songrank.data import Dataset, open_dataset
from songrank.io.json_files import read_json
from songrank.training.run import Run
from songrank.training.run_directory import RunDirectory, lists_fingerprint


@dataclass(frozen=True)
class Missing:
    """Why a part of the report is not there, in one line."""

    why: str


@dataclass(frozen=True, eq=False)
class Subject:
    """One run's folder, read as far as it goes."""

    path: Path
    config: dict[str, Any]
    notes: dict[str, Any]
    """``run.json``; empty where there is none."""
    evaluations: dict[str, FinishedRun]
    """By split, those that can be read."""
    unread: Missing | None
    """Why the split that the report is about is not among them."""

    @property
    def task(self) -> str | None:
        """The task as ``model.json`` has it; None where that is missing."""
        try:
            task = read_json(self.path / "model.json").get("task")
        except DataError:
            return None
        return task if isinstance(task, str) else None


def read_subject(path: Path, split: str, *, finished: bool) -> Subject:
    """Read a run's folder; one that is not evaluated on ``split`` is an error only if it has to be ``finished``."""
    evaluations, unread = {}, None
    for name in dict.fromkeys((split, "test", "validation")):
        try:
            evaluations[name] = read_run(path, name)
        except DataError as error:
            if name == split:
                unread = Missing(str(error))
                if finished:
                    raise
    directory = RunDirectory(path)
    try:
        notes = directory.notes()
    except DataError:
        notes = {}
    first = next(iter(evaluations.values()), None)
    config = first.config if first is not None else directory.recipe().model_dump(mode="json")
    return Subject(path, config, notes, evaluations, unread)


def open_data(subject: Subject, split: str, data: Path | None) -> Dataset:
    """The data set of a run, where it was or where it is now; a ``UserError`` where it is not the same any more."""
    place = data if data is not None else Path(str(subject.config.get("data", "")))
    dataset = open_dataset(place)
    RunDirectory(subject.path).check_data(dataset)
    if split not in dataset:
        raise DataError(f"has no {split} split", f"it has {', '.join(dataset)}", file=str(dataset.path))
    measured = subject.evaluations.get(split)
    if measured is not None and measured.lists_sha256 != lists_fingerprint(dataset, split):
        fix = "name the data set that it was evaluated on with --data"
        raise DataError(f"holds other lists than {subject.path} was evaluated on", fix, file=str(dataset.path))
    return dataset


def rebuild(subject: Subject, dataset: Dataset, device: str) -> Run:
    """The run with model, losses and feed on a device, as before its first step; its folder is not touched."""
    if not (subject.path / "run.json").exists():
        raise UserError("the folder was not written by `songrank train`, so its model cannot be built again")
    directory = RunDirectory(subject.path)
    recipe = directory.recipe().model_copy(update={"device": device, "members": None})
    with torch.random.fork_rng(devices=[]):
        return Run(directory, recipe, dataset)
