"""Trials of a search: recipes trained in run directories; they can be resumed, may fail, and can share a warm-up."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from songrank.core.errors import DataError
from songrank.io.json_files import read_json
from songrank.training.checkpoints import Checkpoints
from songrank.training.config.recipe import Recipe
from songrank.training.run import Run
from songrank.training.run_directory import RunDirectory
from songrank.training.trainer.loop import DivergedError, NoMemoryError

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome:
    """The result of a trial: metrics by split, or the error that its settings caused."""

    metrics: dict[str, dict[str, float]]
    error: DivergedError | NoMemoryError | None = None


def run_trial(
    recipe: Recipe,
    path: Path,
    splits: Sequence[str],
    *,
    after: Path | None = None,
    opened: Callable[[Run], None] = lambda run: None,
    **options: Any,
) -> Outcome | None:
    """Train a recipe in its run directory, or resume it; a finished run is only read. None if the run was stopped.

    A run of another recipe in ``path`` raises a ``DataError``. ``after`` is the run directory of a trial of the warm-up
    alone, whose result is reused; ``opened`` is called with the run before training; ``options`` are those of ``Run``.
    """
    directory = RunDirectory(path)
    begun = directory.config.exists()
    # A run may be resumed on another device, or with a data set that was moved.
    if begun and directory.recipe().model_copy(update={"data": recipe.data, "device": recipe.device}) != recipe:
        raise DataError("has a different recipe from its trial", "move it away to train it again", file=str(path))
    if directory.notes().get("status") != "finished":
        options["splits"] = tuple(splits)
        run = Run.resume(path, data=recipe.data, **options) if begun else Run.begin(recipe, path, **options)
        opened(run)
        if after is not None:
            _begin_after(run, RunDirectory(after).checkpoints)
        try:
            if not run.finish():
                return None
        except (DivergedError, NoMemoryError) as error:
            return Outcome({}, error)
    files = {split: path / "evaluation" / f"{split}.json" for split in splits}
    again = "it was trained without this split; move the run away to train it again"
    return Outcome({split: read_json(file, again)["metrics"] for split, file in files.items()})


def warm_up_alone(recipe: Recipe) -> Recipe:
    """The trial whose warm-up others with the same warm-up reuse."""
    return recipe.model_copy(update={"fine_tuning": recipe.fine_tuning.model_copy(update={"epochs": 0})})


def _begin_after(run: Run, earlier: Path) -> None:
    """Start a run without a checkpoint from the end of an earlier run, as if the warm-up were its own."""
    kept = run.trainer.checkpoints
    assert kept is not None
    if kept.steps():
        return
    last = max(earlier.glob("step-*"), default=None)
    if last is None:
        raise DataError("has no warm-up", "delete its experiment cell, and run again", file=str(earlier))
    found = Checkpoints(earlier, owner=read_json(last / "state.json")["owner"]).latest()
    assert found is not None
    step, state = found
    fresh = run.trainer.state_dict()
    kept.save(step, {**state, **{part: [*state[part][:1], *fresh[part][1:]] for part in ("losses", "samplers")}})


def best_first(values: Mapping[T, float | None]) -> list[T]:
    """The keys with finite values, best first; ties keep their order."""
    known = {one: value for one, value in values.items() if value is not None and math.isfinite(value)}
    return sorted(known, key=lambda one: -known[one])
