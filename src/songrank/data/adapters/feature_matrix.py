"""Features from arrays, sparse matrices or tables: validated, in fitted column order, dense by blocks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.core.errors import DataError, shown
from songrank.io.tables.polars_frames import to_polars
from songrank.io.tables.typed_columns import LABEL_EXPECTED, read_column, read_features

_BLOCK_VALUES = 1 << 22
_MOST = float(np.finfo(np.float32).max)
_NUMBERS = "expected finite numbers, or NaN for missing values"
_SHAPE = "expected two dimensions, [rows, features]. Reshape your data"


@dataclass(frozen=True)
class Features:
    """A matrix of features, and its column names, if any."""

    values: Any  # a numpy array, a scipy sparse matrix in CSR, or a polars frame
    names: tuple[str, ...] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    @property
    def count(self) -> int:
        """Features per row."""
        return int(self.values.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether only non-zero values are stored."""
        return hasattr(self.values, "tocsr")

    def take(self, rows: Array) -> "Features":
        """These rows."""
        return replace(self, values=self.values[rows])

    def columns(self, places: Sequence[int]) -> "Features":
        """The columns at these positions, in this order."""
        if list(places) == list(range(self.count)):
            return self
        names = None if self.names is None else tuple(self.names[at] for at in places)
        return Features(self.values[:, list(places)], names)

    def dense(self, first: int, last: int) -> Array:
        """Rows ``first`` to ``last`` − 1: float32, NaN for missing values."""
        part = self.values[first:last]
        if isinstance(part, pl.DataFrame):
            dense = np.empty(part.shape, np.float32)
            for at, name in enumerate(part.columns):
                dense[:, at] = read_column(read_features, part[name], _NUMBERS, "X", None, first)
            return dense
        return _as_numbers(part.toarray() if self.is_sparse else part, first)

    def blocks(self) -> Iterator[tuple[int, int, Array]]:
        """All rows in chunks: first, last + 1, and the dense rows."""
        step = max(1, _BLOCK_VALUES // max(1, self.count))
        for first in range(0, self.rows, step):
            last = min(first + step, self.rows)
            yield first, last, self.dense(first, last)


@dataclass(frozen=True)
class FittedColumns:
    """Fitted columns, and those among them that are ignored."""

    names: tuple[str, ...]  # Column_0, … if unnamed
    ignored: tuple[str, ...]
    named: bool  # whether names were given and columns are matched by name

    @classmethod
    def of(cls, features: Features, ignore: str | Sequence[str] | None = None) -> "FittedColumns":
        """The columns of these features; ``ignore`` is a list of names, or names separated by commas."""
        names = features.names or tuple(f"Column_{at}" for at in range(features.count))
        listed = [name.strip() for name in ignore.split(",")] if isinstance(ignore, str) else ignore or ()
        if not isinstance(listed, list | tuple | set):
            raise DataError(f"ignore is {shown(ignore)}", "expected a list of column names in data_options")
        ignored = tuple(name for name in names if name in listed)
        unknown = [name for name in listed if name not in names]
        if unknown:
            raise DataError(f"ignore has unknown column {shown(unknown[0])}", "expected columns of X in data_options")
        if len(ignored) == len(names):
            raise DataError("ignore has all columns of X", "keep at least one feature")
        return cls(names, ignored, features.names is not None)

    @property
    def used(self) -> tuple[str, ...]:
        """Names of the columns that are not ignored."""
        return tuple(name for name in self.names if name not in self.ignored)

    def find(self, features: Features, whose: str = "DocumentRanker") -> Features:
        """The features among these columns, in fitted order; ``whose`` names the estimator in messages."""
        if self.named and features.names is not None:
            missing = [name for name in self.used if name not in features.names]
            if missing:
                more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
                what = f"X has no column {', '.join(map(repr, missing[:5]))}{more}"
                raise DataError(what, "pass all fitted columns")
            return Features(features.values.select(list(self.used)), self.used)
        if features.count != len(self.names):
            what = f"X has {features.count} features, but {whose} is expecting {len(self.names)} features as input"
            raise DataError(what, "pass the fitted features, in the same order")
        return features.columns([at for at, name in enumerate(self.names) if name not in self.ignored])


def read_matrix(X: Any) -> Features:
    """Read features of any supported type."""
    if hasattr(X, "tocsr"):
        found = Features(X.tocsr())
    elif isinstance(X, Mapping | pl.LazyFrame) or (hasattr(X, "columns") and hasattr(X, "shape")):
        columns = getattr(X, "columns", ())
        frame = to_polars(X)
        named = type(X).__module__.partition(".")[0] != "pandas" or all(isinstance(name, str) for name in columns)
        found = Features(frame, tuple(frame.columns) if named else None)
    else:
        try:
            found = Features(np.asarray(unmasked(X)))
        except ValueError:
            raise DataError("X has rows of different lengths", _SHAPE) from None
        if found.values.ndim != 2:
            raise DataError(f"X has shape {list(found.values.shape)}", _SHAPE)
    if getattr(getattr(found.values, "dtype", None), "kind", "") == "c":
        raise DataError("X is complex. Complex data not supported", "expected real numbers")
    if not found.rows or not found.count:
        kind, shape = "feature" if found.rows else "sample", tuple(found.values.shape)
        what = f"X has 0 {kind}(s) (shape={shape}) while a minimum of 1 is required."
        raise DataError(what, "expected at least one row and one feature")
    return found


def unmasked(values: Any) -> Any:
    """Fill a numpy masked array with NaN; return other values unchanged.

    >>> unmasked(np.ma.array([1, 2], mask=[False, True]))
    array([ 1., nan])
    """
    if not isinstance(values, np.ma.MaskedArray):
        return values
    try:
        return np.ma.filled(values.astype(np.float64), np.nan)
    except (TypeError, ValueError):
        raise DataError("masked array is not numeric", _NUMBERS) from None


def check_not_negative(name: str, values: Array, row: Array, place: str = "in row", most: float = _MOST) -> Array:
    """``values`` as float64; raises if one is not from 0 to ``most``, naming its ``row``."""
    values = values.astype(np.float64)
    wrong = np.flatnonzero(~((values >= 0) & (values <= most)))
    if wrong.shape[0]:
        at = wrong[0]
        raise DataError(f"{name} is {values[at]} {place} {row[at]} (from 0)", LABEL_EXPECTED)
    return values


def _as_numbers(block: Array, first: int) -> Array:
    """A dense block as float32; errors name the invalid value, with ``first`` the number of the first row."""
    if block.dtype.kind not in "fiub":
        try:
            block = block.astype(np.float64)
        except (TypeError, ValueError):
            values = (value for value in block.reshape(-1).tolist() if not isinstance(value, int | float))
            odd = next(values, block.dtype)
            raise DataError(f"X contains {shown(odd)}", _NUMBERS) from None
    with np.errstate(over="ignore"):
        dense: Array = block.astype(np.float32)
    if np.isinf(dense).any():
        row, column = np.argwhere(np.isinf(dense))[0].tolist()
        raise DataError(f"X is {block[row, column]} in row {first + row}, column {column} (from 0)", _NUMBERS)
    return dense


def dense_rows(rows: Any) -> Array:
    """A dense or sparse matrix as a float32 array."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float32)


def num_rows(rows: Any) -> int:
    """Number of rows of a list, an array or a sparse matrix."""
    return int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)
