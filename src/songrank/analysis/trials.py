"""Trials: recipes trained in run directories of their own. Every search of songrank is made of them.

A trial is resumed after any end, it fails without stopping the search, and it may begin with a warm-up that another
trial has trained.
"""

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
    """The result of a trial: metrics by split, or the error that is due to its settings."""

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
    """Train a recipe in its run directory, or resume it; a finished run is read and not trained again.

    The answer is None if the run was stopped before its end.

    Args:
        recipe: what is tried.
        path: run directory; one that holds a run of another recipe raises a ``DataError``.
        splits: what is evaluated at the end.
        after: run directory of a trial of the warm-up alone, which this trial begins with.
        opened: called with the run before it is trained.
        options: of :class:`~songrank.training.run.Run`, such as ``observe`` and ``save_every``.
    """
    directory = RunDirectory(path)
    begun = directory.config.exists()
    # A run may be resumed with its data set, or on a device, in another place.
    if begun and directory.recipe().model_copy(update={"data": recipe.data, "device": recipe.device}) != recipe:
        raise DataError("follows another recipe than its trial", "move it away: it is run again", file=str(path))
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
    again = "it was trained without this split: move the run away, and it is run again"
    return Outcome({split: read_json(file, again)["metrics"] for split, file in files.items()})


def warm_up_alone(recipe: Recipe) -> Recipe:
    """The trial that others with the same warm-up can begin with."""
    return recipe.model_copy(update={"fine_tuning": recipe.fine_tuning.model_copy(update={"epochs": 0})})


def _begin_after(run: Run, earlier: Path) -> None:
    """Put a run that has no checkpoint to the end of an earlier one: it continues as if the warm-up were its own."""
    kept = run.trainer.checkpoints
    assert kept is not None
    if kept.steps():
        return
    last = max(earlier.glob("step-*"), default=None)
    if last is None:
        raise DataError("holds no warm-up", "delete the cell that it belongs to, and run again", file=str(earlier))
    found = Checkpoints(earlier, owner=read_json(last / "state.json")["owner"]).latest()
    assert found is not None
    step, state = found
    fresh = run.trainer.state_dict()
    kept.save(step, {**state, **{part: [*state[part][:1], *fresh[part][1:]] for part in ("losses", "samplers")}})


def best_first(values: Mapping[T, float | None]) -> list[T]:
    """What has a finite value, best first; of equal values the earlier."""
    known = {one: value for one, value in values.items() if value is not None and math.isfinite(value)}
    return sorted(known, key=lambda one: -known[one])
