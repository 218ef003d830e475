"""Times as numbers: any numbers as they are, dates as microseconds since 1970 in UTC."""

from typing import Literal

import numpy as np
import polars as pl

from songrank.core.columns import Array

TIME_EXPECTED = "expected a number, or a date such as 2024-05-31 or 2024-05-31 23:59:59, all rows written alike"
_WHOLE_FLOATS = 2.0**53  # float64 does not tell larger neighbours apart
_FORMATS = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M:%S%.f%#z")
_FORMATS += ("%Y-%m-%d %H:%M", "%Y-%m-%d", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d", "%Y%m%d")


def read_times(column: pl.Series) -> tuple[str, Array] | None:
    """The kind of these times, and their values, or None if one is not a time. Times of two kinds do not compare.

    >>> read_times(pl.Series(["7", "5"]))
    ('numbers', array([7, 5]))
    >>> read_times(pl.Series(["1970-01-01", "1970-01-02"]))
    ('dates like %Y-%m-%d', array([          0, 86400000000]))
    """
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
    if column.dtype in (pl.Date, pl.Datetime):
        return _read_typed_dates(column)
    return None


def _read_typed_dates(column: pl.Series) -> tuple[str, Array] | None:
    """Microseconds; nanoseconds where the column has them, so that different times stay different."""
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
        for part in (column[:1], column):  # most formats fail on the first row
            dates = part.str.to_datetime(form, time_unit="us", strict=False, time_zone=zone)
            if dates.null_count():
                break
        else:
            return f"dates like {form}", dates.cast(pl.Int64).to_numpy()
    return None
