"""Base class of estimators: scikit-learn parameters, and a fit that runs a recipe."""

import copy
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from polars.exceptions import PolarsError
from safetensors import SafetensorError

from songrank.analysis.auto import AutoRun
from songrank.analysis.ensemble import make_ensemble
from songrank.core.errors import DataError, UserError, shown
from songrank.core.forks import check_not_forked
from songrank.core.launch import need_one_process
from songrank.data import prepare
from songrank.data.adapters.feature_matrix import FittedColumns
from songrank.data.preparation.data_notes import FIRST_INFINITE, data_notes, large_label
from songrank.estimators.saving import (
    EVALUATIONS,
    NOT_SAVED,
    RANKER,
    describe_evaluations,
    pack_evaluations,
    plain_number,
    read_estimator,
    unpack_evaluations,
    write_estimator,
)
from songrank.io.files import make_folder
from songrank.io.locks import alone
from songrank.metrics import Evaluation
from songrank.metrics.names import parse_metrics
from songrank.models.model_folder import ModelFolder
from songrank.serving.open import open_model
from songrank.serving.recommendations import check_count
from songrank.training.config.recipe import Recipe
from songrank.training.config.recipe_files import load_recipe
from songrank.training.random_numbers import own_random_numbers
from songrank.training.run import Run
from songrank.training.warm_start import WarmStart

try:
    from sklearn.base import BaseEstimator as _BaseEstimator
    from sklearn.exceptions import NotFittedError as _NotFittedError
except ImportError:  # scikit-learn is optional
    from songrank.estimators._parameters import Parameters as _BaseEstimator

    _NotFittedError = AttributeError

Callback = Callable[[dict[str, Any]], None]


class NotFittedError(UserError, _NotFittedError):  # type: ignore[misc]
    """The estimator is not fitted yet; a subclass of scikit-learn's error if scikit-learn is installed.

    >>> from songrank import Recommender
    >>> Recommender().recommend(["a"])
    Traceback (most recent call last):
    songrank.estimators.base.NotFittedError: this Recommender is not fitted yet; call fit first
    """


@dataclass(eq=False, repr=False)
class RankingEstimator(_BaseEstimator):  # type: ignore[misc]
    """Base class; a fit prepares a data set and runs a recipe, with the same code as ``songrank train``.

    Args:
        loss: name of a loss.
        model: name of a model, or a dict of name and options; None for the model of the recipe.
        recipe: name of a built-in recipe, or a YAML file.
        epochs: number of fine-tuning epochs; None for the value of the recipe.
        learning_rate: learning rate of fine-tuning; None for the value of the recipe.
        options: other recipe keys and values.
        data_options: options of ``songrank data prepare``.
        members: number of models in the ensemble, trained with consecutive seeds; scores are averaged.
        random_state: random seed.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        folder: directory for the prepared data and the run, e.g. for `songrank report`; None for a temporary one.
        callbacks: functions called with the history entry of each epoch.
        verbose: 0 for no output, 1 for one line per validation.
    Fitted attributes: ``recipe_``, the recipe of the run; ``history_``, one entry per epoch; ``best_score_``, metrics
    of the best checkpoint by evaluation set, ``{"validation": {"ndcg@10": …}}``, or empty; ``evaluation_``, the final
    evaluation by split; ``folder_``, the model.
    """

    task: ClassVar[str]
    loss: str = "song"
    model: str | Mapping[str, Any] | None = None
    _: KW_ONLY
    recipe: str | None = None
    epochs: int | None = None
    learning_rate: float | None = None
    options: Mapping[str, Any] | None = None
    data_options: Mapping[str, Any] | None = None
    members: int = 1
    random_state: int | None = 0
    device: str = "auto"
    folder: str | None = None
    callbacks: Sequence[Callback] | None = None
    verbose: int = 1
    folder_: ModelFolder = field(init=False)
    recipe_: Recipe = field(init=False)
    history_: list[dict[str, Any]] = field(init=False)
    evaluation_: dict[str, Evaluation] = field(init=False)
    best_score_: dict[str, dict[str, float]] = field(init=False)
    _fitted_columns: FittedColumns = field(init=False)
    _by_data: Sequence[str] = field(init=False, default=())  # recipe overrides from the data; parameters win

    def _changes(self) -> list[str]:
        """Recipe overrides of the parameters; None keeps the value of the recipe."""
        stage = {"fine_tuning.epochs": self.epochs, "fine_tuning.learning_rate": self.learning_rate}
        words = {key: value for key, value in {"model": self._model(), **stage}.items() if value is not None}
        words = {"loss": self.loss, **words, "seed": random_seed(self.random_state), "device": self.device}
        words |= self.options or {}
        try:
            return [f"{key}={json.dumps(value, default=plain_number)}" for key, value in words.items()]
        except TypeError as error:
            raise UserError(f"invalid parameter for a recipe ({error}); expected numbers, strings and lists") from None

    def _check_process(self) -> None:
        """Raise if this process cannot fit: it was forked after use, or is one of several that would all fit."""
        check_not_forked()
        instead = "train with `torchrun -m songrank train`, or fit in a program of one process"
        need_one_process(f"{type(self).__name__}.fit", instead)

    def _model(self) -> str | Mapping[str, Any] | None:
        """The model of the recipe, or None to keep it."""
        return self.model

    def _default_recipe(self) -> str:
        """The default recipe."""
        return self.task

    def _recipe(self, data: Path, *more: str, warn: Callable[[str], None] | None = None) -> Recipe:
        """The recipe of a fit."""
        changes = [f"data={json.dumps(str(data))}", *self._by_data, *self._changes(), *more]
        return load_recipe(self.recipe or self._default_recipe(), changes, warn)

    def _fit(
        self,
        kind: str,
        source: Any,
        options: Mapping[str, Any],
        *more: str,
        past: WarmStart | None = None,
        also: Callable[[Run | AutoRun], Mapping[str, Any]] = lambda run: {},
    ) -> Run | AutoRun:
        """Prepare, train, and set all fitted attributes, including ``also(run)``, on success; ``past`` is a warm start.

        Fits in one process are serialised, because they use torch's global random state, which is restored.
        """
        with self._prepared(kind, source, options, *more) as (work, by_data):
            run, found = self._train(work / "run", *more, *by_data, past=past, also=also)
            self.__dict__.update(found)
        return run

    @contextmanager
    def _prepared(
        self, kind: str, source: Any, options: Mapping[str, Any], *more: str
    ) -> Iterator[tuple[Path, list[str]]]:
        """Prepare ``data`` in the directory of the fit; yield it, and the recipe overrides that follow from the data.

        ``more`` are the recipe overrides of a run, which are validated before the data is read.
        """
        self._recipe(Path("data"), *more, warn=self._say)
        check_count("members", self.members)
        with own_random_numbers(), self._place() as work:
            told = {**options, **(self.data_options or {}), "overwrite": True}
            dataset = prepare(kind, source, work / "data", **told)
            for note in data_notes(dataset.info):
                self._say(note)
            found = []
            free = self.recipe is None and "gain" not in (self.options or {})
            if free and large_label(dataset.info) >= FIRST_INFINITE:
                found.append("gain=linear")
                self._say("gain=linear is used for these labels")
            if "validation" not in dataset:
                found.append("validation.every=0")
            yield work, found

    def _train(
        self,
        place: Path,
        *more: str,
        past: WarmStart | None = None,
        also: Callable[[Run | AutoRun], Mapping[str, Any]] = lambda run: {},
    ) -> tuple[Run | AutoRun, dict[str, Any]]:
        """Train a run beside ``data``, or an ensemble; return it, or its first member, and the fitted attributes."""
        members = check_count("members", self.members)
        run = self._begin(self._recipe(place.parent / "data", *more), place)
        if past is not None:
            assert isinstance(run, Run)
            past.carry_over(run.trainer, run.dataset)
        run.finish()
        self._say(run.better_before())
        self._say(run.result())
        if self.verbose:
            self._report_standing(run)
        found = dict(also(run))
        found["history_"] = [dict(line) for line in run.history]
        if members > 1:
            assert isinstance(run, Run)
            found |= self._ensemble(run, members, place)
        else:
            folder = open_model(run.directory.path, self.device)
            found |= {"folder_": folder, "recipe_": run.recipe, "evaluation_": dict(run.results)}
        best = None if members > 1 else run.best_value
        found["best_score_"] = best_score(found["evaluation_"], str(found["recipe_"].validation.metric), best)
        return run, found

    def _report_standing(self, run: Run | AutoRun) -> None:
        """Report how good the model is beside baselines, for tasks that have some."""

    def _begin(self, recipe: Recipe, path: Path) -> Run | AutoRun:
        told: dict[str, Any] = {"overwrite": True, "observe": self._observe, "warn": self._say}
        if recipe.auto is not None:
            return AutoRun.begin(recipe, path, say=self._say, **told)
        return Run.begin(recipe, path, limit=self._limit(), **told)

    def _limit(self) -> float | None:
        """Seconds of training; None for no limit."""
        return None

    def _ensemble(self, first: Run, members: int, place: Path) -> dict[str, Any]:
        """Train the other members with consecutive seeds; return the fitted attributes of the ensemble."""
        places, joined = [place], place.with_name(place.name.replace("run", "ensemble", 1))
        for number in range(1, members):
            recipe = first.recipe.model_copy(update={"seed": (first.recipe.seed + number) % 2**32})
            places.append(place.with_name(f"{place.name}-{number}"))
            self._begin(recipe, places[-1]).finish()
        return {
            "evaluation_": make_ensemble(places, joined, device=self.device, overwrite=True),
            "folder_": open_model(joined, self.device),
            "recipe_": first.recipe.model_copy(update={"members": members}),
        }

    @contextmanager
    def _place(self) -> Iterator[Path]:
        """The directory of data and run: ``folder``, locked against other fits, or a temporary one."""
        if self.folder is None:
            with tempfile.TemporaryDirectory(prefix="songrank-") as name:
                yield Path(name)
        else:
            make_folder(work := Path(self.folder))
            with alone(work, "fitted"):
                yield work

    def _observe(self, line: dict[str, Any]) -> None:
        for callback in self.callbacks or ():
            callback(copy.deepcopy(line))
        found = [f"{name} {value:.4f}" for name, value in line.items() if "@" in name]
        if found:
            self._say(f"{line['stage']}, epoch {line['epoch']}: objective {line['objective']:.4f}, {', '.join(found)}")

    def _say(self, message: str) -> None:
        if self.verbose and message:
            _log.info("%s", message)

    def _fitted(self) -> ModelFolder:
        """The fitted model; raises if not fitted."""
        check_not_forked()
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self.folder_

    def _metrics(self, metrics: str | Sequence[str] | None) -> list[str]:
        """Names of metrics; by default those of the recipe."""
        self._fitted()
        if metrics is None:
            return list(self.recipe_.evaluation.metrics)
        try:
            return list(dict.fromkeys(str(metric) for metric in parse_metrics(metrics)))
        except ValueError as error:
            raise UserError(str(error)) from None

    def _take_columns(self, columns: FittedColumns | None) -> None:
        """Set the fitted columns of X, also as scikit-learn attributes; None for texts."""
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        if columns is not None:
            self._fitted_columns = columns
            self.n_features_in_ = len(columns.names)
            if columns.named:
                self.feature_names_in_ = np.array(columns.names, object)

    def __sklearn_is_fitted__(self) -> bool:
        return "folder_" in vars(self)

    def save(self, directory: str | Path) -> None:
        """Save model and parameters to a directory, without pickle; an existing estimator is replaced.

        The parameters ``callbacks`` and ``folder`` are not saved.
        """
        self._fitted()
        self._save(directory, {RANKER: json.dumps(self._more()).encode(), **self._more_files()})

    def _more(self) -> dict[str, Any]:
        """Further fitted attributes, restored by :meth:`_take_more`."""
        raise NotImplementedError

    def _more_files(self) -> dict[str, bytes]:
        """Further files of the estimator, by name."""
        return {}

    def _save(self, directory: str | Path, more: Mapping[str, bytes]) -> None:
        """Save with additional files, by name."""
        told = {
            "class": type(self).__name__,
            "parameters": {k: v for k, v in self.get_params(deep=False).items() if k not in NOT_SAVED},
            "recipe": self.recipe_.model_dump(mode="json"),
            "history": self.history_,
            "best_score": self.best_score_,
            "evaluations": describe_evaluations(self.evaluation_),
        }
        write_estimator(Path(directory), self.folder_, told, {**more, EVALUATIONS: pack_evaluations(self.evaluation_)})

    @classmethod
    def load(cls, directory: str | Path, device: str = "auto") -> Self:
        """Load a saved estimator."""
        check_not_forked()
        told, files = read_estimator(path := Path(directory), cls.__name__)
        try:
            made = cls(**{**told["parameters"], "device": device})
            made.recipe_ = Recipe.read(told["recipe"], str(path / "estimator.json"))
            made.history_, made.best_score_ = list(told["history"]), dict(told["best_score"])
            made.evaluation_ = unpack_evaluations(told["evaluations"], files.pop(EVALUATIONS))
            made.folder_ = folder = open_model(path, device)
            if folder.task != cls.task:
                raise DataError(f"contains a model for {folder.task}", f"expected one for {cls.task}", file=str(path))
            made._take_files(files)
        except UserError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OSError, PolarsError, SafetensorError):
            raise DataError("is damaged or was edited", "save it again", file=str(path)) from None
        return made

    def _take_files(self, files: Mapping[str, bytes]) -> None:
        """Restore the files of :meth:`save`."""
        try:
            self._take_more(json.loads(files[RANKER]))
        except (KeyError, TypeError, ValueError):
            raise DataError("ranker.json is missing or damaged", "save the ranker again") from None

    def _take_more(self, told: Any) -> None:
        """The inverse of :meth:`_more`."""
        raise NotImplementedError


def best_score(found: Mapping[str, Evaluation], metric: str, best: float | None) -> dict[str, dict[str, float]]:
    """``best_score_``: all metrics of the validation split, and the best value of the metric of validation."""
    if "validation" not in found:
        return {}
    return {"validation": {**found["validation"].values, **({} if best is None else {metric: best})}}


def random_seed(random_state: Any) -> int:
    """Convert a random state of scikit-learn or numpy to a seed."""
    if random_state is np.random or isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    try:
        return 0 if random_state is None else int(random_state)
    except (TypeError, ValueError):
        raise UserError(f"random_state is {shown(random_state)}; expected a whole number") from None


class _StandardError(logging.StreamHandler[Any]):
    """Handler for the current standard error, which notebooks and tests replace."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


_log = logging.getLogger(__name__)
_log.addHandler(_StandardError())
_log.setLevel(logging.INFO)
_log.propagate = False  # silenced by verbose=0
