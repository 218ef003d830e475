"""Conversion of pandas, polars, Arrow, dict and Parquet tables to polars frames."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import polars as pl

from songrank.core.errors import DataError, first_line, shown
from songrank.io.source import Job, Source

TABLE = "the table"  # name of a table in memory in messages
_SLICE_BYTES = 64 << 20
_NUMBER = r"[-+]?[0-9]+(\.[0-9]*)?"  # a column of this name is a value


def to_polars(table: Any) -> pl.DataFrame:
    """Convert a table in memory to a polars frame, without a copy if possible."""
    try:
        if isinstance(table, pl.LazyFrame):
            return table.collect()
        if isinstance(table, pl.DataFrame):
            return table
        if isinstance(table, Mapping):
            return pl.DataFrame({str(name): _column(values) for name, values in table.items()})
        if type(table).__module__.partition(".")[0] == "pandas":  # by column: whole frames would need pyarrow
            names = [str(name) for name in table.columns]
            if len(set(names)) < len(names):
                raise DataError("has duplicate column names", "rename one", file=TABLE)
            return pl.DataFrame({name: _column(table.iloc[:, at]) for at, name in enumerate(names)})
        if hasattr(table, "__arrow_c_stream__"):
            return pl.DataFrame(table)
    except DataError:
        raise
    except Exception as error:  # third-party tables may raise anything
        fix = "expected columns of equal length and a single type each"
        raise DataError(f"cannot be read ({first_line(error)})", fix, file=TABLE) from None
    fix = "expected a path, a pandas, polars or Arrow table, or a dict of columns"
    raise DataError(f"source is a {type(table).__name__}", fix)


def _column(values: Any) -> pl.Series:
    if isinstance(values, pl.Series):
        return values
    if type(values).__module__.partition(".")[0] == "pyarrow":
        return pl.Series(values)
    if hasattr(values, "to_numpy") or isinstance(values, np.ndarray):
        array = values if isinstance(values, np.ndarray) else values.to_numpy()
        if array.dtype.kind == "O":
            missing = ("NAType", "NaTType")  # of pandas
            values = [None if v is None or v != v or type(v).__name__ in missing else v for v in array.tolist()]
            return _of_one_type(values)
        if array.dtype.kind == "M" and np.datetime_data(array.dtype)[0] not in ("ms", "us", "ns"):
            array = array.astype("datetime64[us]")
        return pl.Series(array)
    return _of_one_type(values)


def _of_one_type(values: Any) -> pl.Series:
    """A column; mixed numbers and strings, as in pandas, become strings."""
    try:
        return pl.Series(values, strict=True)
    except TypeError:
        if not isinstance(values, list) or not all(isinstance(one, int | float | str | None) for one in values):
            raise
        texts = any(isinstance(one, str) for one in values)
        return pl.Series([None if one is None else str(one) if texts else one for one in values], strict=False)


def read_parquet(source: Source, job: Job) -> pl.LazyFrame:
    """Scan a Parquet file; use :func:`collect` to read it."""
    with _parquet(source):
        return pl.scan_parquet(source.whole(job), glob=False)


def parquet_rows(source: Source) -> int:
    """Number of rows of a Parquet file that is not compressed as a whole, from its metadata."""
    with _parquet(source):
        return int(pl.scan_parquet(source.path, glob=False).select(pl.len()).collect().item())


def column_names(table: pl.LazyFrame, file: str) -> list[str]:
    """Names of the columns."""
    with _parquet(file):
        return table.collect_schema().names()


def collect(table: pl.LazyFrame, columns: Sequence[str], file: str) -> pl.DataFrame:
    """Read these columns into memory."""
    with _parquet(file):
        return table.select(columns).collect()


def slices(table: pl.LazyFrame, columns: Sequence[str], file: str) -> Iterator[pl.DataFrame]:
    """Blocks of rows of these columns that fit in memory."""
    step, start = max(1, _SLICE_BYTES // (8 * len(columns))), 0
    while (block := collect(table.slice(start, step), columns, file)).height:
        yield block
        start += step


@contextmanager
def _parquet(source: Source | str) -> Iterator[None]:
    name = source if isinstance(source, str) else source.name
    try:
        yield
    except (pl.exceptions.PolarsError, OSError, pl.exceptions.PanicException) as error:
        raise DataError(f"is not a valid Parquet file ({first_line(error)})", "regenerate it", file=name) from None


def find_column(given: str | None, usual: Sequence[str], columns: Sequence[str], what: str, file: str) -> str | None:
    """The given column; for ``"auto"`` the first with a usual name, or None."""
    if given is None or given in columns:
        return given
    if given != "auto":
        raise DataError(f"has no {what} column {given!r}", "columns are " + ", ".join(map(repr, columns)), file=file)
    plain = {name.lower().replace("_", "").replace(" ", ""): name for name in reversed(columns)}
    return next((plain[name.replace("_", "")] for name in usual if name.replace("_", "") in plain), None)


def need_column(
    given: str, usual: Sequence[str], columns: Sequence[str], what: str, file: str, option: str | None = None
) -> str:
    """Like :func:`find_column`, but required; ``option`` sets the column, by default ``--{what}-column``."""
    found = find_column(given, usual, columns, what, file)
    if found is None:
        raise no_column(columns, what, file, f"pass {option or f'--{what}-column'}")
    return found


def no_column(columns: Sequence[str], what: str, file: str, fix: str) -> DataError:
    """The error if no column has a usual name."""
    names = ", ".join(map(shown, columns[:12])) + (", …" if len(columns) > 12 else "")
    if file != TABLE and any(re.fullmatch(_NUMBER, name.strip()) for name in columns):
        fix = f"add a first line with the names of the columns, then {fix} if necessary"
        return DataError(f"has no header: its columns would be called {names}", fix, file=file)
    return DataError(f"cannot find the {what} column" + (f" among {names}" if names else ""), fix, file=file)
