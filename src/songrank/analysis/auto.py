"""Automatic choice: several models within a time budget, blended where validation says that it helps.

The run directory of an automatic choice has the best model so far from the first seconds on, and ``parts/`` with the
run of each model and of each blend.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from songrank.analysis.auto_parts import Part, default_budget, in_order, parts_for
from songrank.analysis.blend import blend_runs
from songrank.analysis.finished_runs import flat, read_run
from songrank.analysis.last_items import with_new_items
from songrank.analysis.standing import standing
from songrank.core.devices import choose_device
from songrank.core.errors import UserError
from songrank.data import Dataset, open_dataset
from songrank.io.files import copy_whole
from songrank.io.locks import alone
from songrank.metrics import Evaluation
from songrank.metrics.comparison import paired_difference
from songrank.models.model_folder import MODEL_FILES
from songrank.models.registry import MODELS
from songrank.serving.open import open_model
from songrank.training.config.recipe import Recipe
from songrank.training.config.recipe_files import load_recipe
from songrank.training.run import Run, evaluate_model, open_recipe_data
from songrank.training.run_directory import RunDirectory, lists_fingerprint
from songrank.training.warm_start import WarmStart

_LEAST_SECONDS = 3.0  # a model is not begun with less time left
_COMMON = {"title", "data", "prepare", "device", "deterministic", "seed", "gain", "evaluation", "auto"}
_COMMON_OF_VALIDATION = {"metric", "candidates"}


@dataclass(frozen=True)
class Tried:
    """A model that was tried, for messages and ``run.json``."""

    name: str
    seconds: float
    alone: float | None
    """Its validation metric; None if it failed."""
    value: float | None
    """The validation metric of the best blend with it."""
    kept: bool
    note: str


@dataclass
class AutoRun:
    """An automatic choice in a run directory; the interface is that of :class:`songrank.training.run.Run`.

    Args:
        directory: the run directory.
        recipe: a recipe with a section ``auto``.
        dataset: the training data.
        observe: called with each line of the history of each model, with its name as ``part``.
        tick: called after each step.
        warn: called with one line for each warning.
        say: called with one line for each decision.
        splits: splits to evaluate at the end.
        options: further options of each :class:`~songrank.training.run.Run`.
    """

    directory: RunDirectory
    recipe: Recipe
    dataset: Dataset
    observe: Callable[[dict[str, Any]], None] = lambda line: None
    tick: Callable[[], None] = lambda: None
    warn: Callable[[str], None] = lambda message: None
    say: Callable[[str], None] = lambda message: None
    splits: tuple[str, ...] = ("validation", "test")
    options: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Evaluation] = field(init=False, default_factory=dict)
    history: list[dict[str, Any]] = field(init=False, default_factory=list)
    tried: list[Tried] = field(init=False, default_factory=list)
    stopped: bool = field(init=False, default=False)
    best: Path | None = field(init=False, default=None)
    """The run of the best model so far, in ``parts/``."""
    _trained: list[Path] = field(init=False, default_factory=list)
    _current: Run | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        assert self.recipe.auto is not None
        self.parts = parts_for(self.dataset, choose_device(self.recipe.device))
        self.budget = self.recipe.auto.budget or default_budget(self.dataset)

    @classmethod
    def begin(cls, recipe: Recipe, path: str | Path, *, overwrite: bool = False, **more: Any) -> "AutoRun":
        """Start a new run; everything is validated before the directory is created."""
        _check_keys(recipe)
        directory, dataset = RunDirectory(Path(path)), open_recipe_data(recipe)
        run = cls(directory, recipe.model_copy(update={"data": str(dataset.path.absolute())}), dataset, **more)
        directory.begin(run.recipe, dataset, overwrite=overwrite)
        shutil.rmtree(run._place(""), ignore_errors=True)
        return run

    @classmethod
    def resume(cls, path: str | Path, *, data: str | Path | None = None, **more: Any) -> "AutoRun":
        """Resume a run: finished models are kept, and the current one continues."""
        directory = RunDirectory(Path(path))
        recipe = directory.recipe()
        dataset = open_dataset(data) if data is not None else open_recipe_data(recipe)
        directory.check_data(dataset)
        return cls(directory, recipe.model_copy(update={"data": str(dataset.path.absolute())}), dataset, **more)

    def stop(self) -> None:
        """Stop after the current step; for signal handlers."""
        self.stopped = True
        if self._current is not None:
            self._current.trainer.stop()

    @property
    def best_value(self) -> float | None:
        """The validation metric of the result; None without validation."""
        return None if self.best is None or "validation" not in self.dataset else self._validation(self.best)

    def warm_start(self) -> WarmStart:
        """The ids only: on more data, all models are fitted again."""
        none = torch.zeros(0, dtype=torch.int64)
        return WarmStart(self.dataset.query_ids, self.dataset.item_ids, {}, none, "", {})

    def result(self) -> str:
        """Nothing: decisions are reported by ``say``."""
        return ""

    def better_before(self) -> str:
        """Nothing: only the best is kept."""
        return ""

    @property
    def spent(self) -> float:
        """Seconds of training so far, over all resumptions."""
        notes = [RunDirectory(self._place(part.name)).notes() for part in self.parts]
        return sum(float(told.get("seconds", 0.0)) for told in notes)

    def finish(self) -> bool:
        """Try all models within the budget, evaluate the best and write the results; False if stopped before."""
        with alone(self.directory.path, "trained"), self.directory.failing():
            self.directory.note(status="running", device=str(choose_device(self.recipe.device)), error=None)
            for part in self.parts:
                if not self._try(part):
                    self.directory.note(status="stopped", seconds=self.spent)
                    return False
            self._close()
        return True

    def _try(self, part: Part) -> bool:
        """Train a model and weigh it against the best so far; False if stopped."""
        left = self.budget - self.spent
        if part.share is not None and left < _LEAST_SECONDS and not self._is_finished(part):
            self.say(f"{part.name}: not tried, since the budget of {self.budget:.0f} s is spent")
            return not self.stopped
        if part.note and not self._is_finished(part):
            self.say(f"{part.name}: {part.note}")
        try:
            run = self._train(part, None if part.share is None else left * part.share)
        except UserError as error:
            if self.best is None and part is self.parts[-1]:
                raise
            self._note(Tried(part.name, 0.0, None, None, False, str(error)))
            return True
        if run is not None:
            self._weigh(part, run)
        return not self.stopped

    def _is_finished(self, part: Part) -> bool:
        return bool(RunDirectory(self._place(part.name)).notes().get("status") == "finished")

    def _train(self, part: Part, limit: float | None) -> Path | None:
        """The finished run of a model; None if stopped."""
        place = self._place(part.name)
        if self._is_finished(part):
            return place
        options: dict[str, Any] = {
            "observe": lambda line: self._observe(part, line),
            "tick": self.tick,
            "warn": self.warn,
        }
        options |= {"splits": ("validation",), **self.options}
        notes = RunDirectory(place).notes()
        if limit is not None:
            options["limit"] = limit + float(notes.get("seconds", 0.0))
        if notes.get("status") in ("running", "stopped"):
            self._current = Run.resume(place, data=self.dataset.path, **options)
        else:
            self._current = Run.begin(self._part_recipe(part), place, overwrite=True, **options)
        if self.stopped:
            self._current.trainer.stop()
        try:
            return place if self._current.finish() else None
        finally:
            self._current = None

    def _part_recipe(self, part: Part) -> Recipe:
        own = load_recipe(part.recipe, [f"data={self.dataset.path}", *part.changes])
        watch = own.validation if "validation" in self.dataset else own.validation.model_copy(update={"every": 0})
        watch = watch.model_copy(update=self.recipe.validation.model_dump(include=_COMMON_OF_VALIDATION))
        same = {name: getattr(self.recipe, name) for name in ("data", "device", "deterministic", "seed", "gain")}
        metrics = list(dict.fromkeys([watch.metric, *self.recipe.evaluation.metrics]))
        evaluation = self.recipe.evaluation.model_copy(update={"metrics": metrics})
        return own.model_copy(update={**same, "validation": watch, "evaluation": evaluation})

    def _observe(self, part: Part, line: dict[str, Any]) -> None:
        self.history.append({"part": part.name, **line})
        self.observe(self.history[-1])

    def _weigh(self, part: Part, run: Path) -> None:
        """Keep a model, alone or in a blend with the models so far, if validation says that it helps."""
        seconds = float(RunDirectory(run).notes().get("seconds", 0.0))
        if "validation" not in self.dataset:
            self._install(run)
            self._note(Tried(part.name, seconds, None, None, True, "no validation split: nothing to choose by"))
            return
        metric = self.recipe.validation.metric
        alone = self._validation(run)
        self._trained.append(run)
        if self.best is None:
            self._install(run)
            self._note(Tried(part.name, seconds, alone, alone, True, part.reason))
            return
        place = self._place(f"with-{part.name}")
        members = self._trained
        told: dict[str, Any] = {"data": self.dataset.path, "device": self.recipe.device, "overwrite": True}
        blended = blend_runs(members, place, metric=metric, **told)
        per_query = [read_run(one, "validation").per_query[metric] for one in (place, self.best)]
        gain = paired_difference(*per_query)
        kept, words = gain.mean > gain.standard_error, f"{gain.mean:+.4f} ± {gain.standard_error:.4f}"
        if kept and in_order(self.dataset) and any(_reads_ids(member) for member in members):
            later = paired_difference(*(self._with_new_items(one) for one in (place, self.best)))
            kept = later.mean > later.standard_error
            words = f"{words}, with new items {later.mean:+.4f} ± {later.standard_error:.4f}"
        if kept:
            weights = zip(members, blended.weights, strict=True)
            named = [f"{weight:.2f} {member.name}" for member, weight in weights if weight]
            words = f"{words} with weights {', '.join(named)}"
            self._install(place)
        elif _reads_ids(run) and in_order(self.dataset):
            self._trained.remove(run)  # of no use in other blends
        self._note(Tried(part.name, seconds, alone, self._validation(place), kept, words))

    def _with_new_items(self, run: Path) -> Tensor:
        folder = open_model(run, choose_device(self.recipe.device))
        return with_new_items(folder, self.dataset, RunDirectory(run).recipe())

    def _validation(self, run: Path) -> float:
        return float(read_run(run, "validation").metrics[self.recipe.validation.metric])

    def _note(self, tried: Tried) -> None:
        """Report a decision in one line."""
        self.tried.append(tried)
        metric = f"validation {self.recipe.validation.metric}"
        if tried.alone is None:
            verdict = "kept" if tried.kept else "failed"
            self.say(f"{tried.name}: {verdict} ({tried.note})")
            return
        verdict = "kept" if tried.kept else "left out, since it does not help"
        limit = " (its time limit)" if RunDirectory(self._place(tried.name)).notes().get("limit_reached") else ""
        self.say(
            f"{tried.name}: {metric} {tried.alone:.4f} after {tried.seconds:.0f} s{limit}; {verdict} ({tried.note})"
        )

    def _install(self, run: Path) -> None:
        """Make the model of a run that of this directory; ``model.json``, which has the checksums, is last."""
        self.best = run
        for name in (*MODEL_FILES, "model.json"):
            source, target = run / name, self.directory.path / name
            if source.exists():
                copy_whole(source, target)
            else:
                target.unlink(missing_ok=True)
        chosen = RunDirectory(run).recipe()
        told = {name: getattr(self.recipe, name) for name in ("title", "prepare", "auto", "data")}
        self.recipe = chosen.model_copy(update=told)
        self.directory.rewrite(self.recipe)

    def _close(self) -> None:
        """Evaluate the model and describe the result."""
        folder = open_model(self.directory.path, choose_device(self.recipe.device))
        for split in self.splits:
            if split in self.dataset:
                self.results[split] = evaluate_model(folder.model, self.dataset, split, self.recipe)
                self.directory.save_evaluation(split, self.results[split], lists_fingerprint(self.dataset, split))
        self._report_standing()
        self.directory.rewrite_history(self.history)
        tried = [vars(one) for one in self.tried]
        self.directory.note(status="finished", seconds=self.spent, tried=tried)

    def _report_standing(self) -> None:
        """One line: the model beside popularity and EASE on validation; a warning if it is below."""
        closed = [part for part in self.parts if part.share is None and self._is_finished(part)]
        known = {part.recipe: read_run(self._place(part.name), "validation") for part in closed[:1]}
        advice = "a larger budget trains the models for longer"
        found = standing(self.dataset, self.recipe, self.results.get("validation"), known=known, advice=advice)
        if found is not None:
            self.say(found.line())
            if message := found.warning():
                self.warn(message)

    def _place(self, name: str) -> Path:
        return self.directory.path / "parts" / name


def _reads_ids(run: Path) -> bool:
    """Whether queries are ids of users, whose new items are unknown until the model is trained again."""
    return MODELS[RunDirectory(run).recipe().model["name"]].capabilities.query == "ids"


def _check_keys(recipe: Recipe) -> None:
    """Raise if a key was changed that the automatic choice decides itself."""
    shipped = load_recipe("auto", [f"data={json.dumps(recipe.data)}"])
    own, others = (flat(some.model_dump(mode="json", exclude=_COMMON)) for some in (recipe, shipped))
    known = {f"validation.{name}" for name in _COMMON_OF_VALIDATION}
    changed = [key for key, value in own.items() if value != others.get(key) and key not in known]
    if changed:
        fix = "auto chooses models and schedules; leave it out, or use another recipe"
        raise UserError(f"{changed[0]} was changed; {fix} (`songrank recipes`)")
