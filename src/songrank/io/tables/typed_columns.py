"""Conversion of columns to ids, labels, times and features; errors name the first invalid row."""

from collections.abc import Callable
from typing import Literal, TypeVar

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.core.errors import DataError, shown

T = TypeVar("T")
Where = Callable[[int], int]

ID_EXPECTED = "expected an id: a whole number or a string"
LABEL_EXPECTED = "expected a finite number of at least 0"
TIME_EXPECTED = "expected a number, or a date such as 2024-05-31 or 2024-05-31 23:59:59, in the same format in all rows"
_WHOLE_FLOATS = 2.0**53  # float64 is exact up to here
_TIMES = (" %H:%M:%S%.f", "T%H:%M:%S%.f", " %H:%M:%S%.f%#z", "T%H:%M:%S%.f%#z", " %H:%M", "")
_FORMATS = (*(f"%Y-%m-%d{time}" for time in _TIMES), "%Y/%m/%d %H:%M:%S", "%Y/%m/%d", "%Y%m%d")
_MISSING_WORDS = ["", "na", "n/a", "nan", "null", "none"]


def read_column(
    read: Callable[[pl.Series], T | None],
    column: pl.Series,
    fix: str,
    file: str,
    line: Where | None = None,
    first: int = 0,
) -> T:
    """Convert a column with ``read``; the error names the first row for which it returns None.

    ``line`` maps rows of the column to lines of the file; without it, rows are numbered from ``first``, the number of
    the first row in the table.
    """
    found = read(column)
    if found is not None:
        return found
    if not len(column):
        raise DataError(f"{column.name} has no rows", "expected at least one", file=file)
    row = _first_wrong(read, column)
    where = f"row {first + row + 1:,}: " if line is None else ""
    try:
        value = column[row : row + 1].to_list()[0]
        found_there = "missing" if value is None else shown(value)
    except pl.exceptions.PanicException:  # a date out of range for Python
        found_there = "out of range"
    raise DataError(f"{where}{column.name} is {found_there}", fix, file=file, line=None if line is None else line(row))


def _first_wrong(read: Callable[[pl.Series], object], column: pl.Series) -> int:
    """The first invalid row, by bisection."""
    low, high = 0, len(column) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if read(column[: middle + 1]) is None else (middle + 1, high)
    return low


def read_features(column: pl.Series) -> Array | None:
    """Numbers in float32 range as float64, NaN where missing; None if a value is invalid or infinite."""
    if column.dtype == pl.String:
        column = column.str.strip_chars()
        missing = column.is_null() | column.str.to_lowercase().is_in(_MISSING_WORDS)
        numbers = column.cast(pl.Float64, strict=False)
        if bool((numbers.is_null() & ~missing).any()):
            return None
    elif column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        numbers = column.cast(pl.Float64)
    else:
        return None
    values: Array = numbers.fill_null(np.nan).to_numpy()
    return None if bool((np.abs(values) > np.finfo(np.float32).max).any()) else values


def read_known_features(column: pl.Series) -> Array | None:
    """Like :func:`read_features`, but None if a value is missing."""
    values = read_features(column)
    return None if values is None or bool(np.isnan(values).any()) else values


def read_ids(column: pl.Series) -> pl.Series | None:
    """Ids as integers or strings; None if an id is missing or invalid."""
    if column.null_count():
        return None
    if column.dtype.is_integer():
        whole = column.cast(pl.Int64, strict=False)
        return column.cast(pl.String) if whole.null_count() else whole
    if column.dtype.is_float():  # pandas integers with missing values
        whole = column.cast(pl.Int64, strict=False)
        return whole if not whole.null_count() and bool((whole == column).all()) else None
    if column.dtype in (pl.List, pl.Struct, pl.Object, pl.Binary, pl.Array):
        return None
    texts = column.cast(pl.String)
    return None if bool((texts == "").any()) else texts


def read_labels(column: pl.Series) -> Array | None:
    """Finite numbers of at least 0 as float32; None if a value is invalid."""
    if column.dtype == pl.String:
        column = column.str.strip_chars().cast(pl.Float64, strict=False)
    elif not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        return None
    if column.null_count():
        return None
    values = column.cast(pl.Float64).to_numpy()
    right = ((values >= 0) & (values <= np.finfo(np.float32).max)).all()
    return values.astype(np.float32) if right else None


def read_times(column: pl.Series) -> tuple[str, Array] | None:
    """The kind and the values of times; None if a value is invalid. Times of different kinds cannot be compared."""
    if column.null_count():
        return None
    if column.dtype == pl.String:
        column = column.str.strip_chars()
        numbers = column.cast(pl.Int64, strict=False)
        if numbers.null_count():
            numbers = column.cast(pl.Float64, strict=False)
        return read_times(numbers) if not numbers.null_count() else _read_dates(column)
    if column.dtype == pl.Decimal:
        column = column.cast(pl.Int64 if column.dtype.scale == 0 else pl.Float64, strict=False)  # type: ignore[attr-defined]
        return read_times(column)
    if column.dtype.is_integer():
        whole = column.cast(pl.Int64, strict=False)
        return None if whole.null_count() else ("numbers", whole.to_numpy())
    if column.dtype.is_float():
        values = column.cast(pl.Float64).to_numpy()
        return ("numbers", values) if bool((np.abs(values) < _WHOLE_FLOATS).all()) else None
    if column.dtype not in (pl.Date, pl.Datetime):
        return None
    # nanoseconds only if the column has them
    unit: Literal["ns", "us"] = "ns" if getattr(column.dtype, "time_unit", None) == "ns" else "us"
    try:
        dates = column.cast(pl.Datetime(unit), strict=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    return None if dates.null_count() else (f"dates in {unit}", dates.cast(pl.Int64).to_numpy())


def _read_dates(column: pl.Series) -> tuple[str, Array] | None:
    column = column.str.strip_suffix("Z").str.strip_suffix(" UTC")
    for form in _FORMATS:
        zone = "UTC" if form.endswith("z") else None
        for part in (column[:1], column):  # most formats fail in the first row
            dates = part.str.to_datetime(form, time_unit="us", strict=False, time_zone=zone)
            if dates.null_count():
                break
        else:
            return f"dates like {form}", dates.cast(pl.Int64).to_numpy()
    return None
