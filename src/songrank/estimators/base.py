"""What the three estimators share: parameters as scikit-learn has them, and a fit that is a run of a recipe."""

import copy
import json
import logging
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch

from songrank.analysis.ensemble import make_ensemble
from songrank.core.errors import DataError, UserError, shown
from songrank.data import prepare
from songrank.data.adapters.feature_matrix import FittedColumns
from songrank.estimators.saving import NOT_SAVED, RANKER, plain_number, read_estimator, write_estimator
from songrank.io.files import make_folder
from songrank.io.locks import alone
from songrank.metrics import Evaluation
from songrank.metrics.names import parse_metrics
from songrank.models.model_folder import ModelFolder
from songrank.serving.open import open_model
from songrank.training.config.recipe import Recipe
from songrank.training.config.recipe_files import load_recipe
from songrank.training.run import Run
from songrank.training.warm_start import WarmStart

try:
    from sklearn.base import BaseEstimator as _BaseEstimator
    from sklearn.exceptions import NotFittedError as _NotFittedError
except ImportError:  # scikit-learn is welcome, not needed
    from songrank.estimators._parameters import NotFittedError as _NotFittedError
    from songrank.estimators._parameters import Parameters as _BaseEstimator

_ONE_AT_A_TIME = threading.Lock()
Callback = Callable[[dict[str, Any]], None]


class NotFittedError(UserError, _NotFittedError):  # type: ignore[misc]
    """The estimator was asked before it was fitted; also scikit-learn's error of this name, where that is installed.

    >>> from songrank import Recommender
    >>> Recommender().recommend(["a"])
    Traceback (most recent call last):
    songrank.estimators.base.NotFittedError: this Recommender is not fitted yet; call fit first
    """


@dataclass(eq=False, repr=False)
class RankingEstimator(_BaseEstimator):  # type: ignore[misc]
    """Fits by preparing a data set and running a recipe in a folder: the same code as ``songrank train``.

    Args:
        loss: name of a loss.
        model: name of a model, or a dict with its name and options; None for the recipe's.
        recipe: a shipped recipe or a YAML file to start from.
        epochs: of fine-tuning; None for the recipe's.
        learning_rate: of fine-tuning; None for the recipe's.
        options: any other key of a recipe.
        data_options: of ``songrank data prepare``.
        members: number of models in an ensemble, trained with consecutive seeds; their scores are averaged.
        random_state: seed of everything random.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``.
        folder: where the prepared data and the run are kept, for `songrank report`; None: deleted after the fit.
        callbacks: called with each epoch's line of the history, for your own logging.
        verbose: 0 for silence, 1 for a line at each evaluation on validation.

    After fitting: ``recipe_`` is what was run, ``history_`` one entry an epoch, ``best_score_`` the best validation
    figure, ``evaluation_`` what was measured at the end by split, ``folder_`` the model.

    """

    task: ClassVar[str]
    default_recipe: ClassVar[str]
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
    best_score_: Any = field(init=False)
    _fitted_columns: FittedColumns = field(init=False)

    # ---- what subclasses use

    def _changes(self) -> list[str]:
        """The parameters in the words of a recipe; None leaves the recipe's own value."""
        stage = {"fine_tuning.epochs": self.epochs, "fine_tuning.learning_rate": self.learning_rate}
        words = {key: value for key, value in {"model": self.model, **stage}.items() if value is not None}
        words = {"loss": self.loss, **words, "seed": _seed(self.random_state), "device": self.device}
        words |= self.options or {}
        try:
            return [f"{key}={json.dumps(value, default=plain_number)}" for key, value in words.items()]
        except TypeError as error:
            raise UserError(f"a parameter is no value of a recipe ({error}); use numbers, texts and lists") from None

    def _default_recipe(self) -> str:
        """The shipped recipe that is run if none is named."""
        return self.default_recipe

    def _by_data(self) -> Sequence[str]:
        """Changes of that recipe by the data's shape; where parameters say otherwise, they count."""
        return ()

    def _recipe(self, data: Path, *more: str) -> Recipe:
        """The recipe that a fit runs."""
        changes = [f"data={json.dumps(str(data))}", *self._by_data(), *self._changes(), *more]
        return load_recipe(self.recipe or self._default_recipe(), changes)

    def _fit(
        self,
        kind: str,
        source: Any,
        options: Mapping[str, Any],
        *more: str,
        past: WarmStart | None = None,
        also: Callable[[Run], Mapping[str, Any]] = lambda run: {},
    ) -> Run:
        """Prepare, train, and take over what came out, all of it or nothing; with a past, from there.

        ``also`` says what else of the run to keep, by the names of attributes. One fit at a time in a process, since
        torch's random numbers are the process's; they are as before afterwards.
        """
        self._recipe(Path("data"), *more)  # a mistake in it is found before the data is read
        members = self._check_members()
        with _ONE_AT_A_TIME, torch.random.fork_rng(), self._place() as work:
            dataset = prepare(
                kind, source, work / "data", **{**options, **(self.data_options or {}), "overwrite": True}
            )
            if "validation" not in dataset:
                more = (*more, "validation.every=0")
            recipe = self._recipe(work / "data", *more)
            run = Run.begin(recipe, work / "run", overwrite=True, observe=self._observe, warn=self._say)
            if past is not None:
                past.carry_over(run.trainer, dataset)
            run.finish()
            self._say(run.trainer.better_before())
            found = {**self._found(run), **also(run)}
            if members > 1:
                found |= self._joined(run, members, work)
            self.__dict__.update(found)
        return run

    def _check_members(self) -> int:
        if isinstance(self.members, bool) or not isinstance(self.members, Integral) or self.members < 1:
            raise UserError(f"members is {shown(self.members)}; expected a whole number of at least 1")
        return int(self.members)

    def _joined(self, first: Run, members: int, work: Path) -> dict[str, Any]:
        """Train again with the next seeds; the mean of all is the model. What changes by it."""
        places = [first.directory.path]
        for number in range(1, members):
            recipe = first.recipe.model_copy(update={"seed": (first.recipe.seed + number) % 2**32})
            places.append(work / f"run-{number}")
            more = {"observe": self._observe, "warn": self._say}
            Run.begin(recipe, places[-1], overwrite=True, **more).finish()
        evaluation = make_ensemble(places, work / "ensemble", device=self.device, overwrite=True)
        return {
            "evaluation_": evaluation,
            "folder_": open_model(work / "ensemble", self.device),
            "recipe_": first.recipe.model_copy(update={"members": members}),
        }

    def _found(self, run: Run) -> dict[str, Any]:
        """What a finished run gave, by the names of attributes."""
        best = run.trainer.at.best
        return {
            "folder_": open_model(run.directory.path, self.device),
            "recipe_": run.recipe,
            "history_": [dict(line) for line in run.trainer.at.history],
            "evaluation_": dict(run.results),
            "best_score_": best if best > float("-inf") else None,
        }

    @contextmanager
    def _place(self) -> Iterator[Path]:
        """Where data and run are: ``folder``, which no other fit may use meanwhile, or a place that goes afterwards."""
        if self.folder is None:
            with tempfile.TemporaryDirectory(prefix="songrank-") as name:
                yield Path(name)
            return
        work = Path(self.folder)
        make_folder(work)
        with alone(work, "fitted"):
            yield work

    def _observe(self, line: dict[str, Any]) -> None:
        for callback in self.callbacks or ():
            callback(copy.deepcopy(line))
        looks = [f"{name} {value:.4f}" for name, value in line.items() if "@" in name]
        if looks:
            self._say(f"{line['stage']}, epoch {line['epoch']}: objective {line['objective']:.4f}, {', '.join(looks)}")

    def _say(self, message: str) -> None:
        if self.verbose and message:
            _log.info("%s", message)

    def _fitted(self) -> ModelFolder:
        """The model, or an error where there is none yet."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self.folder_

    def _metrics(self, metrics: str | Sequence[str] | None) -> list[str]:
        """Names of metrics, the recipe's where none are given; a wrong one is the user's mistake."""
        self._fitted()
        if metrics is None:
            return list(self.recipe_.evaluation.metrics)
        try:
            return list(dict.fromkeys(str(metric) for metric in parse_metrics(metrics)))
        except ValueError as error:
            raise UserError(str(error)) from None

    def _take_columns(self, columns: FittedColumns | None) -> None:
        """Note the columns of X that are fitted, under scikit-learn's names too; None for texts."""
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        if columns is not None:
            self._fitted_columns = columns
            self.n_features_in_ = len(columns.names)
            if columns.named:
                self.feature_names_in_ = np.array(columns.names, object)

    def _validation_metric(self) -> str:
        """The recipe's validation metric: what :meth:`score` gives."""
        self._fitted()
        return str(self.recipe_.validation.metric)

    def __sklearn_is_fitted__(self) -> bool:
        return "folder_" in vars(self)

    # ---- saving

    def save(self, directory: str | Path) -> None:
        """Write the model folder and the parameters; nothing in it is a pickle.

        Callbacks and a custom ``folder`` are not saved. An estimator saved here before is replaced.
        """
        self._fitted()
        self._save(directory, {RANKER: json.dumps(self._more()).encode()})

    def _more(self) -> dict[str, Any]:
        """What a subclass keeps besides, for :meth:`_take_more`."""
        raise NotImplementedError

    def _save(self, directory: str | Path, more: Mapping[str, bytes]) -> None:
        """Save with more files, by name."""
        folder = self._fitted()
        told = {
            "class": type(self).__name__,
            "parameters": {k: v for k, v in self.get_params(deep=False).items() if k not in NOT_SAVED},
            "recipe": self.recipe_.model_dump(mode="json"),
            "history": self.history_,
            "best_score": self.best_score_,
        }
        write_estimator(Path(directory), folder, told, more)

    @classmethod
    def load(cls, directory: str | Path, device: str = "auto") -> Self:
        """An estimator that was saved, ready to predict."""
        path = Path(directory)
        told, files = read_estimator(path, cls.__name__)
        damaged = DataError("was changed by hand, or holds files that do not fit", "save it again", file=str(path))
        try:
            made = cls(**told["parameters"])
            made.set_params(device=device)
            made.recipe_ = Recipe.read(told["recipe"], str(path / "estimator.json"))
            made.history_, made.best_score_, made.evaluation_ = list(told["history"]), told["best_score"], {}
        except (KeyError, TypeError, ValueError) as error:
            raise error if isinstance(error, UserError) else damaged from None
        made.folder_ = open_model(path, device)
        if made.folder_.task != cls.task:
            raise DataError(f"holds a model for {made.folder_.task}", f"expected one for {cls.task}", file=str(path))
        try:
            made._take_files(files)
        except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
            raise error if isinstance(error, UserError) else damaged from None
        return made

    def _take_files(self, files: Mapping[str, bytes]) -> None:
        """The way back from :meth:`save`."""
        try:
            self._take_more(json.loads(files[RANKER]))
        except (KeyError, TypeError, ValueError):
            raise DataError("ranker.json is missing or damaged", "save the ranker again") from None

    def _take_more(self, told: Any) -> None:
        """The way back from :meth:`_more`."""
        raise NotImplementedError


def _seed(random_state: Any) -> int:
    """A seed from all that scikit-learn and numpy call one."""
    if random_state is np.random or isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    try:
        return 0 if random_state is None else int(random_state)
    except (TypeError, ValueError):
        raise UserError(f"random_state is {shown(random_state)}; expected a whole number") from None


class _StandardError(logging.StreamHandler[Any]):
    """Writes to what is standard error at the time, which notebooks and tests replace."""

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


_log = logging.getLogger(__name__)
_log.addHandler(_StandardError())
_log.setLevel(logging.INFO)
_log.propagate = False  # verbose=0 is the way to silence it
