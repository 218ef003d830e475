"""Tables and columns of any type: pandas, polars, Arrow, numpy or Python; result tables have the input type."""

from collections.abc import Mapping, Set
from os import PathLike
from typing import Any

import numpy as np
import polars as pl

from songrank.core.errors import DataError, UserError, shown
from songrank.io.tables.polars_frames import to_polars


def kind_of(table: Any) -> str:
    """The type of a table: ``"pandas"``, ``"polars"``, ``"pyarrow"``, ``"numpy"``, or ``"dict"`` for all others."""
    module = type(table).__module__.partition(".")[0]
    return module if module in ("pandas", "polars", "pyarrow", "numpy") else "dict"


def is_table(values: Any) -> bool:
    """Whether this is a pandas, polars or Arrow table, not a single column or an array."""
    return hasattr(values, "columns")


def read_table(table: Any, names: tuple[str, ...]) -> pl.DataFrame:
    """Any table as a polars frame; columns of an array get the first of these names."""
    if isinstance(table, np.ndarray):
        if table.ndim != 2 or not 1 <= table.shape[1] <= len(names):
            fix = f"expected [rows, 1 to {len(names)}]: {', '.join(names)}"
            raise DataError(f"the array has shape {list(table.shape)}", fix)
        columns = (np.array(column.tolist()) if table.dtype.kind == "O" else column for column in table.T)
        return to_polars(dict(zip(names, columns, strict=False)))
    if isinstance(table, str | PathLike):
        raise DataError(f"the table is {str(table)!r}", "read the file first, for example with pandas or polars")
    return to_polars(table)


def write_table(frame: pl.DataFrame, kind: str) -> Any:
    """Convert a frame to a table of this type; a dict of arrays for ``"numpy"`` and ``"dict"``."""
    if kind in ("polars", "pyarrow"):
        return frame if kind == "polars" else frame.to_arrow()
    columns = {name: frame[name].to_numpy() for name in frame.columns}
    if kind != "pandas":
        return columns
    import pandas as pd

    found = pd.DataFrame(columns)
    for name, dtype in frame.schema.items():
        if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:  # arrays have no zones
            found[name] = found[name].dt.tz_localize("UTC").dt.tz_convert(dtype.time_zone)
    return found


def as_texts(X: Any) -> list[str] | None:
    """X as texts, or None if it has other values."""
    if isinstance(X, str):
        raise DataError("X is a string", "expected a list of texts: [X]")
    if hasattr(X, "tocsr") or isinstance(X, Mapping) or getattr(X, "ndim", 1) != 1 or hasattr(X, "columns"):
        return None
    if kind_of(X) == "pyarrow":
        X = X.to_pylist()
    listed = X.tolist() if isinstance(X, np.ndarray) else list(X) if hasattr(X, "__iter__") else []
    wrong = [row for row, text in enumerate(listed) if not isinstance(text, str)]
    if wrong and len(wrong) < len(listed):
        raise DataError(f"X is {shown(listed[wrong[0]])} in row {wrong[0]} (from 0)", "expected a string in each row")
    return listed if listed and not wrong else None


def ids_in_order(name: str, ids: Any) -> Any:
    """Validate ids in order, as a list or a column; raises for sets and single ids."""
    alone = isinstance(ids, str | bytes) or not hasattr(ids, "__iter__") or getattr(ids, "ndim", 1) == 0
    if alone or isinstance(ids, Set | Mapping):
        found = shown(ids) if alone else f"a {type(ids).__name__}"
        raise UserError(f"{name} is {found}; expected a list or a column of ids, in order")
    if getattr(ids, "ndim", 1) != 1 or hasattr(ids, "columns"):
        raise UserError(f"{name} has shape {list(ids.shape)}; expected one column of ids")
    return ids if hasattr(ids, "shape") else list(ids)


def id_at(ids: Any, position: int) -> Any:
    """The id at a position, as a Python value."""
    found = list(ids)[position]
    return found.item() if hasattr(found, "item") else found
