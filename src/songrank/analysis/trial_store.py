"""The trials of a study in an SQLite file of Optuna, with an ask-and-tell interface."""

import importlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from songrank.analysis.search_space import Dimension
from songrank.core.errors import DataError, UserError
from songrank.core.hashing import derive_key
from songrank.io.files import replacing

_NAME = "songrank"  # of the study within its file


class TrialStore:
    """``study.db`` in the directory of a study; needs Optuna."""

    def __init__(self, place: Path) -> None:
        try:
            self.optuna: Any = importlib.import_module("optuna")
        except ImportError:
            raise UserError('tuning needs Optuna, which is not installed: pip install "songrank[tune]"') from None
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)
        self.file, self._study = place / "study.db", None

    def trials(self) -> list[Any]:
        """All trials in order, including unfinished ones."""
        with self._used() as study:
            return list(study.trials)

    def ask(self, space: Sequence[Dimension], seed: int, first: Mapping[str, Any] | None) -> Any:
        """Choose and store the parameters of the next trial atomically; parameters are not repeated.

        The choice depends on the seed, the number of the trial and the earlier trials, so a killed study repeats it.
        """
        with self._used() as study:
            earlier, optuna = study.trials, self.optuna
            number, tried = len(earlier), [one.params for one in earlier]
            distributions = {one.key: one.distribution(optuna) for one in space}
            parameters, attempt = first if number == 0 else None, 0
            while parameters is None or parameters in tried:
                kind = optuna.samplers.TPESampler if attempt < 8 else optuna.samplers.RandomSampler
                sampler = kind(seed=derive_key(seed, number, attempt) % 2**31)
                draft = optuna.create_study(direction="maximize", sampler=sampler)
                draft.add_trials(earlier)
                parameters, attempt = draft.ask(distributions).params, attempt + 1
            running = optuna.trial.TrialState.RUNNING
            study.add_trial(optuna.create_trial(state=running, params=parameters, distributions=distributions))
            return study.trials[number]

    def tell(self, number: int, value: float | None) -> None:
        """Store the value of a trial; None if it failed."""
        with self._used() as study:
            study.tell(number, value, state=self.optuna.trial.TrialState.FAIL if value is None else None)

    @contextmanager
    def _used(self) -> Iterator[Any]:
        """The study; a ``DataError`` if its file cannot be used."""
        from sqlalchemy.exc import SQLAlchemyError

        try:
            self._study = self._study or self._open()
            yield self._study
        except (SQLAlchemyError, self.optuna.exceptions.OptunaError, RuntimeError, OSError) as error:
            reason = str(error.__cause__ or error).strip().partition("\n")[0]
            fix = "free disk space, or restore the file; if it is deleted, the finished trials are read again"
            raise DataError(f"cannot be used ({reason})", fix, file=str(self.file)) from None

    def _open(self) -> Any:
        """Write a new file under a temporary name, so that it is complete when it appears."""
        if not self.file.exists():
            with replacing(self.file) as (new, _):
                self.optuna.create_study(storage=self._storage(new), study_name=_NAME, direction="maximize")
        return self.optuna.load_study(storage=self._storage(self.file), study_name=_NAME)

    def _storage(self, file: Path) -> Any:
        """SQLite, opened by path, because some characters of a path have a meaning in a URL."""
        from sqlalchemy.pool import NullPool

        options = {"creator": lambda: sqlite3.connect(file, timeout=60.0), "poolclass": NullPool}
        return self.optuna.storages.RDBStorage("sqlite://", engine_kwargs=options)
