"""A training run in a directory, from which it can be resumed at any time."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from songrank.core.devices import choose_device
from songrank.core.errors import DataError, UserError, memory_shortage, shown
from songrank.core.forks import check_not_forked
from songrank.core.processes import ALONE, LostProcessError, Processes
from songrank.data import Dataset, open_dataset
from songrank.io.locks import alone
from songrank.metrics import Evaluation
from songrank.models.base import RankingModel
from songrank.models.registry import MODELS
from songrank.training.build import make_trainer, policies
from songrank.training.checkpoints import Checkpoints
from songrank.training.config.recipe import Recipe
from songrank.training.config.recipe_files import resolve
from songrank.training.feature_maps import map_features
from songrank.training.random_numbers import own_random_numbers
from songrank.training.run_directory import Curves, RunDirectory, fingerprint, lists_fingerprint
from songrank.training.trained_model import write_model
from songrank.training.trainer.determinism import NotDeterministicError
from songrank.training.trainer.history_adapters import make_adapter
from songrank.training.trainer.loop import DivergedError, NoMemoryError, Position, Trainer
from songrank.training.warm_start import WarmStart


@dataclass
class Run:
    """A training run and its results.

    Args:
        directory: the run directory.
        recipe: the recipe of the run.
        dataset: the training data.
        observe: called with each line of the history, one per epoch.
        tick: called after each step.
        warn: called with one line for each unreadable checkpoint and each fallback.
        splits: splits to evaluate at the end, on whole lists, if the data set has them.
        speed: ``"auto"`` or ``"plain"``, as for :class:`Trainer`.
        save_every: minimum seconds between checkpoints.
        curves: write curves for TensorBoard into the run directory.
        limit: seconds of training, as for :class:`Trainer`.
        processes: the processes that train together, all with the same arguments; the first writes the results, and
            calls ``observe`` and ``tick``.
    """

    directory: RunDirectory
    recipe: Recipe
    dataset: Dataset
    observe: Callable[[dict[str, Any]], None] = lambda line: None
    tick: Callable[[], None] = lambda: None
    warn: Callable[[str], None] = lambda message: None
    splits: tuple[str, ...] = ("validation", "test")
    speed: str = "auto"
    save_every: float = 60.0
    curves: bool = False
    limit: float | None = None
    processes: Processes = ALONE
    trainer: Trainer = field(init=False)
    results: dict[str, Evaluation] = field(init=False, default_factory=dict)
    phases: dict[str, float] = field(init=False, default_factory=dict)
    """Seconds of each phase: opening, training, validation, checkpoints, files, evaluation."""
    _curves: Curves | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        begun = time.monotonic()
        checkpoints = Checkpoints(
            self.directory.checkpoints,
            owner=checkpoint_owner(self.recipe, self.dataset),
            earlier=tuple(change["owner"] for change in self.directory.recipe_changes()),
            warn=self.warn,
            processes=self.processes,
        )
        with own_random_numbers():
            self.trainer = make_trainer(
                self.recipe,
                self.dataset,
                self.processes,
                checkpoints=checkpoints,
                observe=self._observe,
                tick=lambda: self.tick() if self.processes.is_first else None,
                warn=lambda message: self.warn(message),
                speed=self.speed,
                save_every=self.save_every,
                limit=self.limit,
            )
        self.phases["opening"] = time.monotonic() - begun

    @classmethod
    def begin(
        cls, recipe: Recipe, path: str | Path, *, overwrite: bool = False, processes: Processes = ALONE, **more: Any
    ) -> "Run":
        """Start a new run; everything is validated and built before the directory is created."""
        begun = time.monotonic()
        with processes.agreed():
            directory, dataset = RunDirectory(Path(path)), open_recipe_data(recipe)
            choose_device(recipe.device)  # reports a missing device before anything is built
            recipe = recipe.model_copy(update={"data": str(dataset.path.absolute())})  # valid in any working directory
            run = cls(directory, recipe, dataset, processes=processes, **more)
        run.phases["opening"] = time.monotonic() - begun
        with processes.agreed():
            if processes.is_first:
                directory.begin(recipe, dataset, overwrite=overwrite)
        return run

    @classmethod
    def resume(
        cls, path: str | Path, *, data: str | Path | None = None, processes: Processes = ALONE, **more: Any
    ) -> "Run":
        """Resume a run from its last checkpoint; ``data`` is the new location of a moved data set.

        The number of processes need not be that of the interrupted run.
        """
        begun = time.monotonic()
        with processes.agreed():
            directory = RunDirectory(Path(path))
            recipe = directory.recipe()
            dataset = open_dataset(data) if data is not None else open_recipe_data(recipe)
            directory.check_data(dataset)
            run = cls(directory, recipe, dataset, processes=processes, **more)
        run.phases["opening"] = time.monotonic() - begun
        return run

    def stop(self) -> None:
        """Stop after the current step, with a checkpoint; for signal handlers."""
        self.trainer.stop()

    def finish(self) -> bool:
        """Train to the end, evaluate and write the results; return False if stopped before.

        Trainings in one process are serialised, because they use torch's global random state, which is restored.
        """
        check_not_forked()
        with ExitStack() as stack:
            with self.processes.agreed():
                if self.processes.is_first:
                    self._open(stack)
            stack.enter_context(own_random_numbers())
            try:
                return self._finish()
            except (DivergedError, NotDeterministicError) as error:
                self._note(status="failed", error=str(error))
                raise
            except LostProcessError:
                self._note(status="failed", error="another process has ended or cannot be reached")
                raise
            except (RuntimeError, MemoryError) as error:
                short = memory_shortage(error)
                if short is None:
                    raise
                self._note(status="failed", error=short)
                advice = memory_advice(self.recipe, self.dataset)
                raise NoMemoryError(f"{self.directory.path}: {short}; {advice}") from None

    def _open(self, stack: ExitStack) -> None:
        """Lock the directory and open the curves, until the end of the stack."""
        stack.enter_context(alone(self.directory.path, "trained"))
        if self.directory.recipe() != self.recipe:
            what = "was started again by another process with another recipe"
            raise DataError(what, "choose another directory with -o", file=str(self.directory.path))
        stack.enter_context(self.directory.failing())
        self._curves = Curves(self.directory.tensorboard) if self.curves else None
        if self._curves is not None:
            stack.callback(self._curves.close)

    def _note(self, **entries: Any) -> None:
        if self.processes.is_first:
            self.directory.note(**entries)

    def lower_rate(self) -> str:
        """The change of the recipe to a third of the current stage's learning rate, for :func:`change_recipe`."""
        sections = [section for section, _ in self.recipe.sections() if section.epochs]
        section = sections[min(self.trainer.at.stage, len(sections) - 1)]
        key = "fine_tuning" if section is self.recipe.fine_tuning else "warm_up"
        return f"{key}.learning_rate={section.learning_rate / 3:.2g}"

    @classmethod
    def write_last_checkpoint(cls, path: str | Path, target: Path) -> int:
        """Write the model of an unfinished run's last checkpoint to a model folder; return the step.

        These are the best weights on validation so far, or without validation the last ones.
        """
        run = cls.resume(path, speed="plain")
        run.trainer.restore()
        best, step = run.trainer.best_weights(), run.trainer.at.step
        if step == 0:
            raise DataError("has no checkpoint", "train it first", file=str(path))
        if best is not None:
            run.trainer.model.load_state_dict(best)
        model = run.trainer.model.eval()
        assert isinstance(model, RankingModel)
        write_model(target, model, run.recipe.model, run.dataset, map_features(model, run.dataset))
        return step

    @property
    def history(self) -> list[dict[str, Any]]:
        """The history, one line per epoch."""
        return self.trainer.at.history

    @property
    def best_value(self) -> float | None:
        """The best validation metric; None without validation."""
        return self.trainer.at.best if self.trainer.at.best > float("-inf") else None

    def warm_start(self) -> WarmStart:
        """What a later training on more data can begin with."""
        return WarmStart.of(self.trainer, self.dataset)

    def result(self) -> str:
        """One line about the checkpoint that is the result."""
        return self.trainer.result()

    def better_before(self) -> str:
        """A one-line warning if a checkpoint of an earlier stage was better on validation than the result."""
        return self.trainer.better_before()

    def _finish(self) -> bool:
        begun, processes = time.monotonic(), self.processes
        with processes.agreed():
            if processes.is_first:
                self.directory.sweep()
        self.trainer.restore()
        with processes.agreed():
            if processes.is_first:
                self.directory.rewrite_history(self.trainer.at.history)
            data = fingerprint(self.dataset)
            shared = {"processes": processes.world, "backend": processes.backend} if processes.world > 1 else {}
            started = {"status": "running", "device": str(self.trainer.device), "data_sha256": data, "error": None}
            self._note(**{"processes": None, "backend": None, **started, **shared})
        at = self._train()
        finished = not self.trainer.stopped
        if finished:
            model = self.trainer.model.eval()
            assert isinstance(model, RankingModel)
            maps = map_features(model, self.dataset, ("item",))
            changed = "user" in self.dataset.features  # rows of new users come from their features
            with self.trainer.own_rows.whole(model, processes, changed=changed), processes.agreed():
                if processes.is_first:
                    with self._timed("files"):
                        maps |= map_features(model, self.dataset, ("user",))
                        write_model(self.directory.path, model, self.recipe.model, self.dataset, maps)
            with self._timed("evaluation"):
                for split in self.splits:
                    if split in self.dataset:
                        self._evaluate(split)
        with processes.agreed():
            notes = self.directory.notes()
            seconds = notes.get("seconds", 0.0) + time.monotonic() - begun
            ended = self._seconds(notes) | ({"limit_reached": True} if at.limit_reached else {})
            if processes.world > 1:
                ended |= {"bytes_per_step": self.trainer.bytes_per_step, "step_kind": self.trainer.step_kind}
            self._note(status="finished" if finished else "stopped", step=at.step, seconds=seconds, **ended)
        return finished

    def _train(self) -> Position:
        """Train, and add the seconds of its phases."""
        before, begun = _sums(self.trainer.at), time.monotonic()
        at = self.trainer.run()
        training, validation = (after - first for after, first in zip(_sums(at), before, strict=True))
        self._add_seconds("training", training)
        self._add_seconds("validation", validation)
        self._add_seconds("checkpoints", max(0.0, time.monotonic() - begun - training - validation))
        return at

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self._add_seconds(phase, time.monotonic() - begun)

    def _add_seconds(self, phase: str, seconds: float) -> None:
        self.phases[phase] = self.phases.get(phase, 0.0) + seconds

    def _seconds(self, notes: Mapping[str, Any]) -> dict[str, Any]:
        """The seconds of phases, epochs and validations for ``run.json``, over all resumptions."""
        earlier, at = notes.get("phase_seconds", {}), self.trainer.at
        phases = {name: earlier.get(name, 0.0) + seconds for name, seconds in self.phases.items()}
        self.phases.clear()
        lists = {"epoch_seconds": at.epoch_seconds, "evaluation_seconds": at.evaluation_seconds}
        found = {name: [round(seconds, 6) for seconds in values] for name, values in lists.items()}
        return {"phase_seconds": {**earlier, **phases}, **found}

    def _evaluate(self, split: str) -> None:
        found = self.results[split] = self.trainer.evaluate(split, metrics=self.recipe.evaluation.metrics)
        with self.processes.agreed():
            if self.processes.is_first:
                self.directory.save_evaluation(split, found, lists_fingerprint(self.dataset, split))

    def _observe(self, line: dict[str, Any]) -> None:
        with self.processes.agreed():
            if self.processes.is_first:
                self.directory.append_history(line)
                if self._curves is not None:
                    self._curves.add(line)
                self.observe(line)


def _sums(at: Position) -> tuple[float, float]:
    """Seconds of training and of validation so far."""
    return sum(at.epoch_seconds) + at.partial_seconds, sum(at.evaluation_seconds)


def checkpoint_owner(recipe: Recipe, dataset: Dataset) -> str:
    """A checksum of everything the weights depend on: a checkpoint of another recipe is rejected."""
    elsewhere = {"title", "data", "prepare", "device", "deterministic", "evaluation", "blend", "auto"}
    values = recipe.model_dump(mode="json", exclude=elsewhere)
    told = json.dumps(values, sort_keys=True) + fingerprint(dataset)
    return hashlib.sha256(told.encode()).hexdigest()


_MAY_CHANGE = {
    f"{section}.{key}" for section in ("warm_up", "fine_tuning") for key in ("learning_rate", "decay", "clip")
}


def change_recipe(path: str | Path, changes: Sequence[str], *, data: str | Path | None = None) -> None:
    """Change learning rates, their decay or gradient clipping of an unfinished run, for example after a divergence.

    ``changes`` such as ``fine_tuning.learning_rate=1e-4`` apply from the last checkpoint on; ``run.json`` records them.
    """
    for change in changes:
        key = change.partition("=")[0].strip()
        if key not in _MAY_CHANGE:
            fix = f"expected {', '.join(sorted(_MAY_CHANGE))}; for other keys, start a new run"
            raise UserError(f"{shown(key)} cannot be changed with --resume; {fix}")
    directory = RunDirectory(Path(path))
    recipe = directory.recipe()
    if recipe.auto is not None:
        raise UserError(f"{path} chooses models automatically; leave out {shown(changes[0])}")
    with alone(directory.path, "trained"):
        place = str(directory.config)
        changed = Recipe.read(resolve(recipe.model_dump(mode="json"), changes, place), place)
        dataset = open_dataset(data) if data is not None else open_recipe_data(recipe)
        directory.check_data(dataset)
        steps = Checkpoints(directory.checkpoints).steps()
        entry = {"owner": checkpoint_owner(recipe, dataset), "step": steps[-1] if steps else 0, "changes": [*changes]}
        directory.note(recipe_changes=[*directory.recipe_changes(), entry])
        directory.rewrite(changed)


def memory_advice(recipe: Recipe, dataset: Dataset) -> str:
    """What to change when memory is not sufficient: the recipe keys that matter for this data and model."""
    if recipe.closed_form:
        return "use a model without a closed form, such as model=matrix-factorisation"
    if dataset.form == "list":
        length = "set" if recipe.batch.length in (None, "all") else "reduce"
        return f"{length} batch.length, for example batch.length=1000, reduce batch.queries, or use a smaller model"
    reads = MODELS[recipe.model["name"]].capabilities.query
    keys = (
        "batch.queries, batch.irrelevant or model.length"
        if reads == "sequence"
        else "batch.queries or batch.irrelevant"
    )
    return f"reduce {keys}, or use a smaller model"


def open_recipe_data(recipe: Recipe) -> Dataset:
    """Open the recipe's data set; if it is missing, the error says how to prepare it."""
    path = Path(recipe.data)
    if path.is_file():
        hint = f"; for this recipe: `{recipe.prepare}`" if recipe.prepare else ""
        fix = f"prepare it first (see `songrank data list`) and pass data=DIRECTORY{hint}"
        raise DataError("is a file, not a prepared data set", fix, file=str(path))
    try:
        missing = not (path / "dataset.json").exists()
    except OSError as error:
        raise DataError(f"cannot be opened ({error.strerror})", "check the path", file=str(path)[:200]) from None
    if missing and recipe.prepare:
        fix = f"create it with `{recipe.prepare}`, or pass its location: data=DIRECTORY, or --data with --resume"
        raise DataError("does not exist", fix, file=str(path))
    return open_dataset(path)


def evaluate_model(model: nn.Module, dataset: Dataset, split: str, recipe: Recipe, **changes: Any) -> Evaluation:
    """Evaluate a model on its device; ``changes`` replace policies of the recipe."""
    options = {"metrics": recipe.evaluation.metrics, **policies(recipe), **changes}
    try:
        return make_adapter(dataset, next(model.parameters()).device, model).evaluate(model, split, **options)
    except (ValueError, OverflowError) as error:
        raise UserError(str(error)) from None
