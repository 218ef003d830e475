"""The trials of a study in an SQLite file of Optuna, with an ask-and-tell interface.

Each trial has the SHA-256 of its parameters, and a finished one that of its value, as attributes of Optuna.
"""

import importlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from songrank.analysis.search_space import Dimension
from songrank.core.errors import DataError, UserError
from songrank.core.hashing import derive_key
from songrank.io.files import replacing, sha256

_NAME = "songrank"  # of the study within its file
_FIX = "restore the file; if it is deleted, the finished trials are read again"
_FULL = f"free disk space, or {_FIX}"
_DAMAGED = (RuntimeError, OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
"""What Optuna and SQLAlchemy raise besides their own errors if rows are damaged."""
_PARAMETERS, _VALUE = "sha256", "value_sha256"


class TrialStore:
    """``study.db`` in the directory of a study; needs Optuna."""

    def __init__(self, place: Path) -> None:
        try:
            self.optuna: Any = importlib.import_module("optuna")
        except ImportError:
            raise UserError('tuning needs Optuna, which is not installed: pip install "songrank[tune]"') from None
        self.optuna.logging.set_verbosity(self.optuna.logging.ERROR)
        self.file, self._study = place / "study.db", None
        self._rows: Any = None

    def trials(self) -> list[Any]:
        """All trials in order, including unfinished ones."""
        with self._used() as study:
            return self._checked(study)

    def ask(self, space: Sequence[Dimension], seed: int, first: Mapping[str, Any] | None) -> Any:
        """Choose and store the parameters of the next trial atomically; parameters are not repeated.

        The choice depends on the seed, the number of the trial and the earlier trials, so a killed study repeats it.
        """
        with self._used() as study:
            earlier, optuna = self._checked(study), self.optuna
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
            new = optuna.create_trial(state=running, params=parameters, distributions=distributions)
            new.number = number
            new.set_user_attr(_PARAMETERS, self._parameters_sha256(new))
            study.add_trial(new)
            return self._checked(study)[number]

    def tell(self, number: int, value: float | None) -> None:
        """Store the value of a trial; None if it failed."""
        with self._used() as study:
            state = "FAIL" if value is None else "COMPLETE"
            own = self._rows.get_trial_id_from_study_id_trial_number(self._rows.get_study_id_from_name(_NAME), number)
            self._rows.set_trial_user_attr(own, _VALUE, _value_sha256(number, state, value))
            study.tell(number, value, state=self.optuna.trial.TrialState[state])

    def _checked(self, study: Any) -> list[Any]:
        """The trials; a ``DataError`` if one is not as it was stored. Earlier versions stored no checksums."""
        trials = list(study.trials)
        for one in trials:
            kept = one.user_attrs
            same = kept.get(_PARAMETERS) in (None, self._parameters_sha256(one))
            if one.state.is_finished() and _PARAMETERS in kept:
                same = same and kept.get(_VALUE) == _value_sha256(one.number, one.state.name, one.value)
            if not same:
                raise DataError(f"trial {one.number} is damaged (checksum mismatch)", _FIX, file=str(self.file))
        return trials

    def _parameters_sha256(self, trial: Any) -> str:
        told = {name: self.optuna.distributions.distribution_to_json(one) for name, one in trial.distributions.items()}
        return sha256(json.dumps([trial.number, trial.params, told], sort_keys=True))

    @contextmanager
    def _used(self) -> Iterator[Any]:
        """The study; a ``DataError`` if its file cannot be used."""
        from sqlalchemy.exc import SQLAlchemyError

        try:
            self._study = self._study or self._open()
            yield self._study
        except DataError:
            raise
        except (SQLAlchemyError, self.optuna.exceptions.OptunaError, *_DAMAGED) as error:
            reason = str(error.__cause__ or error).strip().partition("\n")[0]
            full = isinstance(error, OSError) or "full" in reason
            raise DataError(f"cannot be used ({reason})", _FULL if full else _FIX, file=str(self.file)) from None

    def _open(self) -> Any:
        """Write a new file under a temporary name, so that it is complete when it appears."""
        if not self.file.exists():
            with replacing(self.file) as (new, _):
                self.optuna.create_study(storage=self._storage(new), study_name=_NAME, direction="maximize")
        self._rows = self._storage(self.file)
        return self.optuna.load_study(storage=self._rows, study_name=_NAME)

    def _storage(self, file: Path) -> Any:
        """SQLite, opened by path, because some characters of a path have a meaning in a URL."""
        from sqlalchemy.pool import NullPool

        options = {"creator": lambda: sqlite3.connect(file, timeout=60.0), "poolclass": NullPool}
        return self.optuna.storages.RDBStorage("sqlite://", engine_kwargs=options)


def _value_sha256(number: int, state: str, value: float | None) -> str:
    return sha256(f"{number} {state} {value!r}")
