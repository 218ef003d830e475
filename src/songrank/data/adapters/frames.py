"""Tables of users' own kind: pandas, polars, Arrow, numpy or a dict of columns in, the same kind out."""

from os import PathLike
from typing import Any

import numpy as np
import polars as pl

from songrank.core.errors import DataError
from songrank.io.tables.polars_frames import to_polars


def kind_of(table: Any) -> str:
    """What kind of table this is: ``"pandas"``, ``"polars"``, ``"pyarrow"``, ``"numpy"`` or ``"dict"``.

    >>> kind_of(np.zeros((2, 3))), kind_of(pl.DataFrame({"user": [1]})), kind_of([1, 2])
    ('numpy', 'polars', 'dict')
    """
    module = type(table).__module__.partition(".")[0]
    return module if module in ("pandas", "polars", "pyarrow", "numpy") else "dict"


def is_table(values: Any) -> bool:
    """Whether these are columns with names, of pandas, polars or Arrow, and not one column or an array."""
    return hasattr(values, "columns")


def read_table(table: Any, names: tuple[str, ...]) -> pl.DataFrame:
    """Any table as a polars frame; the columns of an array get these names, as many as it has.

    >>> read_table(np.array([[1, 7], [2, 8]]), ("user", "item", "label")).columns
    ['user', 'item']
    """
    if isinstance(table, np.ndarray):
        if table.ndim != 2 or not 1 <= table.shape[1] <= len(names):
            shape = f"[rows, 1 to {len(names)}]"
            raise DataError(f"the array has shape {list(table.shape)}", f"expected {shape}: {', '.join(names)}")
        columns = {name: table[:, at] for at, name in zip(range(table.shape[1]), names, strict=False)}
        if table.dtype.kind == "O":
            columns = {name: np.array(column.tolist()) for name, column in columns.items()}
        return to_polars(columns)
    if isinstance(table, str | PathLike):
        raise DataError(f"the table is {str(table)!r}", "read that file first, for example with pandas or polars")
    return to_polars(table)


def write_table(frame: pl.DataFrame, kind: str) -> Any:
    """A frame as a table of this kind; ``"numpy"`` and ``"dict"`` as a dict of arrays.

    >>> write_table(pl.DataFrame({"item": [3, 1]}), "dict")
    {'item': array([3, 1])}
    """
    if kind == "polars":
        return frame
    columns = {name: frame[name].to_numpy() for name in frame.columns}
    if kind == "pandas":
        import pandas as pd

        found = pd.DataFrame(columns)
        for name, dtype in frame.schema.items():
            if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:  # arrays have no zones
                found[name] = found[name].dt.tz_localize("UTC").dt.tz_convert(dtype.time_zone)
        return found
    if kind == "pyarrow":
        return frame.to_arrow()
    return columns
