"""Which rows belong to one query: lengths of lists that follow one another, or an id a row."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from songrank.core.columns import Array
from songrank.core.errors import DataError
from songrank.data.adapters.feature_matrix import unmasked


@dataclass(frozen=True)
class Lists:
    """The number of each row's list; lists are numbered in the order in which they begin."""

    number: Array
    count: int

    @property
    def lengths(self) -> Array:
        """Rows of each list."""
        return np.bincount(self.number, minlength=self.count)

    @property
    def order(self) -> Array:
        """Rows list by list, within a list as they stand."""
        return np.argsort(self.number, kind="stable")


def read_lists(rows: int, group: Any = None, qid: Any = None) -> Lists:
    """Lists of ``rows`` rows from LightGBM's ``group`` or XGBoost's ``qid``; one list if both are None.

    >>> read_lists(3, group=[2, 1]).number.tolist(), read_lists(3, qid=["b", "a", "b"]).number.tolist()
    ([0, 0, 1], [0, 1, 0])
    """
    if group is not None and qid is not None:
        raise DataError("group and qid are both given", "expected one of them")
    if qid is not None:
        return _from_ids(rows, qid)
    if group is None:
        return Lists(np.zeros(rows, np.int64), 1)
    lengths = _read_lengths(group)
    if lengths.sum() != rows:
        what = f"group sums to {int(lengths.sum()):,}, and X has {rows:,} rows"
        raise DataError(what, "expected the lengths of all lists, in order")
    return Lists(np.repeat(np.arange(lengths.shape[0]), lengths), int(lengths.shape[0]))


def _read_lengths(group: Any) -> Array:
    try:
        given = np.asarray(unmasked(group))
        given = given.astype(np.float64) if given.dtype.kind == "O" else given
    except (TypeError, ValueError):
        given = np.zeros(0)
    sound = given.dtype.kind in "iuf" and given.ndim == 1 and given.shape[0] > 0
    if not sound or not ((given >= 1) & (given < 2**53) & (given == np.floor(given))).all():
        raise DataError("group does not hold lengths of lists", "expected whole numbers of at least 1, one a list")
    return given.astype(np.int64)


def _from_ids(rows: int, qid: Any) -> Lists:
    ids = np.asarray(qid)
    if ids.shape != (rows,):
        raise DataError(f"qid has shape {list(ids.shape)}, and X has {rows:,} rows", "expected one id a row")
    numbers: dict[Any, int] = {}
    number = np.zeros(rows, np.int64)
    for row, name in enumerate(ids.tolist()):
        if name is None or name != name:
            raise DataError(f"qid is missing in row {row} (from 0)", "expected one id a row")
        number[row] = numbers.setdefault(name, len(numbers))
    return Lists(number, len(numbers))
