"""The kind of a feature column, from its type and values."""

import polars as pl

from songrank.io.tables import typed_columns

_SAMPLE = 10_000  # rows
_OPAQUE = (pl.Struct, pl.Binary, pl.Object)
_LISTS = 0.1  # share of rows with a separator
_WORDS = 2.0  # words per row
_DISTINCT = 0.5  # share of distinct values


def column_kind(values: pl.Series) -> str | None:
    """The kind of a column; None without a value, or for bytes, structs and objects, which are ignored.

    Numbers and dates are recognised in text, too. Texts with ``|`` have several values; those with two words or more
    on average, of which most are distinct, are free text.

    >>> column_kind(pl.Series(["Comedy|Drama", "Drama"])), column_kind(pl.Series(["1999", "", "2001"]))
    ('multi-valued', 'numeric')
    >>> column_kind(pl.Series([[0.5, 1.0]])), column_kind(pl.Series(["m", "f", "m"]))
    ('embedding', 'categorical')
    """
    values = values.drop_nulls().head(_SAMPLE)
    if values.dtype == pl.String:
        values = values.filter(values.str.strip_chars() != "")
    if not len(values):
        return None
    inner = getattr(values.dtype, "inner", None)
    if values.dtype in _OPAQUE or (inner is not None and (inner.is_nested() or inner in _OPAQUE)):
        return None
    if inner is not None:
        return "embedding" if inner.is_float() else "multi-valued"
    if values.dtype == pl.Boolean:
        return "categorical"
    if values.dtype.is_numeric():
        return "numeric"
    if values.dtype in (pl.Date, pl.Datetime):
        return "date"
    if values.dtype != pl.String:
        return "categorical"
    if typed_columns.read_features(values) is not None:
        return "numeric"
    if typed_columns.read_times(values) is not None:
        return "date"
    if float(values.str.contains("|", literal=True).mean()) >= _LISTS:  # type: ignore[arg-type]
        return "multi-valued"
    words = float(values.str.split(" ").list.len().mean())  # type: ignore[arg-type]
    return "text" if words >= _WORDS and values.n_unique() > _DISTINCT * len(values) else "categorical"
