"""Tuning of recipes on the validation split: each trial is a run, and a study stores the trials.

The parameters of a trial depend only on the seed of the recipe, the number of the trial and the results of earlier
trials. A killed and resumed study therefore has the same trials wherever runs are bit-exact.
"""

import json
import math
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from songrank import __version__
from songrank.analysis.finished_runs import flat
from songrank.analysis.search_space import default_search, read_search
from songrank.analysis.trial_store import TrialStore
from songrank.analysis.trials import best_first, run_trial
from songrank.core.devices import choose_device
from songrank.core.errors import DataError, UserError, shown
from songrank.io.files import NEW, make_folder, write_whole
from songrank.io.json_files import read_json, write_json
from songrank.io.locks import LOCK, alone
from songrank.io.verification import seal
from songrank.training.build import check_fit, make_model, make_trainer
from songrank.training.config.recipe import Recipe
from songrank.training.config.recipe_files import load_recipe, resolve
from songrank.training.run import Run, open_recipe_data
from songrank.training.run_directory import RunDirectory, fingerprint


@dataclass(frozen=True)
class Trial:
    """Parameters of a trial, and its validation value; None if it failed."""

    number: int
    value: float | None
    parameters: dict[str, Any]
    error: str = ""


class Study:
    """A study in the directory ``place``: ``study.json`` (settings), ``study.db``, ``trial-0007/`` … and ``best.yaml``.

    Source, changes and search space are given as on the command line; ``more`` are options of each run.
    """

    def __init__(self, source: str, changes: Sequence[str], search: Sequence[str], place: Path, **more: Any) -> None:
        self.store, self.place, self.more = TrialStore(place), place, more
        self.stopped = self.finished = False
        self.run: Run | None = None
        self.space = read_search(search or default_search(load_recipe(source, changes)))
        first = {one.key: one.ends[0] for one in self.space}
        chosen = [*changes, *(f"{key}={word}" for key, word in first.items())]
        start = load_recipe(source, chosen, more.get("warn"))
        self._source, self._changes, self._start = source, changes, _with_metric(start.model_dump(mode="json"))
        self.metric, self.seed = start.validation.metric, start.seed
        self._meaning: dict[tuple[str, str], Any] = {}
        self.own = self._check_space(first, _own_recipe(source, changes))
        self._begin(start, list(changes))

    def stop(self) -> None:
        """Stop after the current step, so that the study can be resumed; for signal handlers."""
        self.stopped = True
        if self.run is not None:
            self.run.trainer.stop()

    def recipe(self, parameters: dict[str, Any]) -> Recipe:
        """The recipe with these parameters."""
        words = [f"{key}={one if isinstance(one, str) else json.dumps(one)}" for key, one in parameters.items()]
        return Recipe.read(resolve(dict(self._start), words, self._source), self._source)

    def _check_space(self, first: dict[str, str], own: Recipe | None) -> dict[str, Any] | None:
        """Check the ends of each range and each choice; return the values of the recipe, if they are in the space."""
        point: dict[str, Any] = {}
        for one in self.space:
            for word in one.ends:
                self._meaning[one.key, word] = _entry(self.recipe({**first, one.key: word}), one.key)
            if own is not None:
                value = _entry(own, one.key)
                point.update((one.key, found) for found in one.holding(value, self._meaning))
        return point if len(point) == len(self.space) else None

    def _begin(self, start: Recipe, changes: list[str]) -> None:
        """Check the data set, then create the directory, or check that it contains this study."""
        dataset = open_recipe_data(start)
        if start.validation.every == 0:
            raise UserError("validation.every is 0; expected 1 or more, because tuning needs validation")
        for split in ("train", "validation"):
            if split not in dataset:
                fix = "prepare it with " + ("--validation 0.1" if split == "validation" else "a training split")
                raise DataError(f"has no {split} split", fix, file=str(dataset.path))
        check_fit(start, dataset)
        choose_device(start.device)
        with torch.device("meta"):
            make_model(start.model, dataset)
        searched = {one.key: one.words for one in self.space}
        description: dict[str, Any] = {"search": searched, "first": self.own, "resolved": self._start}
        description["data_sha256"] = fingerprint(dataset)
        file = self.place / "study.json"
        if not file.exists():
            self._create(file, {"recipe": self._source, "changes": changes, **description})
        begun = _read(file)
        _check_same(self.place, begun, description)
        self.space.sort(key=lambda one: list(begun["search"]).index(one.key))  # trials depend on the order
        if not self.store.file.exists():
            with alone(self.place, "searched"):
                self.store.trials()
        self.store.trials()

    def _create(self, file: Path, description: dict[str, Any]) -> None:
        """Create the directory of the study, unless another process has done so by now."""
        if self.place.exists():
            own = self.place.is_dir() and all(at.name.startswith(NEW) or at.name == LOCK for at in self.place.iterdir())
            if not own and not file.exists():
                raise DataError("already exists and is not a study", "choose another with -o", file=str(self.place))
        make_folder(self.place)
        with alone(self.place, "searched"):
            if not file.exists():
                versions = {"songrank": __version__, "optuna": self.store.optuna.__version__}
                write_json(file, {**versions, **description})

    def trials(self) -> list[Trial]:
        """All finished trials, in order."""
        return [self._trial(one) for one in self.store.trials() if one.state.is_finished()]

    def best(self, count: int = 1) -> list[Trial]:
        """The best trials, best first; of ties the earlier."""
        every = self.trials()
        return [every[at] for at in best_first({at: trial.value for at, trial in enumerate(every)})[:count]]

    def search(self, trials: int) -> Iterator[Trial]:
        """Run trials until their total is ``trials``, all combinations were tried, or the study is stopped."""
        size = math.prod(one.size for one in self.space)
        with alone(self.place, "searched"):
            self._write_best()
            while True:
                everything = self.store.trials()
                unfinished = [one for one in everything[:trials] if not one.state.is_finished()]
                self.finished = not unfinished and len(everything) >= min(trials, size)
                if self.finished or self.stopped:
                    return
                frozen = unfinished[0] if unfinished else self.store.ask(self.space, self.seed, self.own)
                found = self._train(self._trial(frozen))
                if found is None:
                    return
                self.store.tell(found.number, found.value)
                if found.value is not None:
                    shutil.rmtree(RunDirectory(self.path(found.number)).checkpoints, ignore_errors=True)
                self._write_best()
                yield found

    def path(self, number: int) -> Path:
        """The run directory of a trial."""
        return self.place / f"trial-{number:04d}"

    def _trial(self, frozen: Any) -> Trial:
        words = {one.key: frozen.params[one.key] for one in self.space}
        meant = {key: self._meaning.get((key, word), word) for key, word in words.items()}
        return Trial(frozen.number, frozen.value, meant)

    def _train(self, trial: Trial) -> Trial | None:
        """Run or resume a trial; None if it was stopped."""
        path, reason, value = self.path(trial.number), "", None
        try:
            found = run_trial(self.recipe(trial.parameters), path, ("validation",), opened=self._opened, **self.more)
            if found is None:
                return None
            if found.error is not None:
                reason = str(found.error)
            elif not math.isfinite(value := found.metrics["validation"][self.metric]):
                reason = f"validation {self.metric} is {value}"
        except UserError as error:  # values were checked one by one, without the data
            if isinstance(error, DataError) or self.run is not None or not self._can_be_built():
                raise
            return Trial(trial.number, None, trial.parameters, str(error))
        finally:
            self.run = None
        if reason:
            RunDirectory(path).note(status="failed", error=reason)
        return Trial(trial.number, None if reason else value, trial.parameters, reason)

    def _opened(self, run: Run) -> None:
        self.run = run
        if self.stopped:
            run.trainer.stop()

    def _can_be_built(self) -> bool:
        """Whether the recipe is valid with its own values, so that an error is due to the values of a trial."""
        try:
            own = _own_recipe(self._source, self._changes) or self.recipe({})
            make_trainer(own, open_recipe_data(own))
        except UserError:
            return False
        return True

    def _write_best(self) -> None:
        import yaml

        for best in self.best():
            values = self.recipe(best.parameters).model_dump(mode="json")
            text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)
            title = f"# trial {best.number}: validation {self.metric} {best.value:.4f}"
            write_whole(self.place / "best.yaml", seal(f"{title}\n{text}"))


def _with_metric(values: dict[str, Any]) -> dict[str, Any]:
    """The recipe with the validation metric among the evaluated metrics."""
    names = dict.fromkeys([*values["evaluation"]["metrics"], values["validation"]["metric"]])
    return {**values, "evaluation": {**values["evaluation"], "metrics": list(names)}}


def _own_recipe(source: str, changes: Sequence[str]) -> Recipe | None:
    with suppress(UserError):  # it may lack a searched key
        return load_recipe(source, changes)
    return None


def _entry(recipe: Recipe, key: str) -> Any:
    found: Any = recipe.model_dump(mode="json")
    for name in key.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _check_same(place: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Raise if a study was started with other settings, with their names."""
    with suppress(UserError):  # keys added since the study started have their defaults
        old = old | {"resolved": Recipe.read(old["resolved"], str(place)).model_dump(mode="json")}
    either, both = {*old["search"], *new["search"]}, {*old["search"]} & {*new["search"]}
    before: dict[str, Any] = {}
    now: dict[str, Any] = {}
    for one, told in ((old, before), (new, now)):
        told |= {key: value for key, value in flat(one["resolved"]).items() if key not in either and value != {}}
        told |= {f"search {key}": words for key, words in one["search"].items()}
        told |= {key: value for key, value in (one.get("first") or {}).items() if key in both}
        told["data_sha256"] = one.get("data_sha256")
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if names:
        what = ", ".join(f"{name} ({_told(before, name)}, now {_told(now, name)})" for name in names[:3])
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        fix = "use the settings of study.json, or choose another directory with -o"
        raise DataError(f"was started with other values of {what}{more}", fix, file=str(place))


def _told(values: dict[str, Any], name: str) -> str:
    return shown(values[name], 24) if name in values else "none"


def _read(file: Path) -> dict[str, Any]:
    with suppress(DataError):
        found = read_json(file)
        if isinstance(found.get("search"), dict) and isinstance(found.get("resolved"), dict):
            return found
    raise DataError("is not a study", "restore the file, or choose another directory with -o", file=str(file))
