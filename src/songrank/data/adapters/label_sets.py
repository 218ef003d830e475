"""Labels as lists of labels per row, one label per row, or an indicator matrix."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.core.csr import CSR
from songrank.core.errors import DataError, shown
from songrank.core.ids import Ids
from songrank.data.adapters.feature_matrix import check_not_negative, unmasked
from songrank.data.readers.label_table import read_label_lists
from songrank.io.tables.polars_frames import to_polars
from songrank.io.tables.typed_columns import LABEL_EXPECTED

_LISTS = "expected a list of whole numbers or strings per row, or an indicator matrix [rows, labels]"
_ALONE = "expected at least two columns, or one whole number or string per row"


def read_label_sets(Y: Any, rows: int) -> tuple[CSR, Ids]:
    """``item`` and ``label`` of each row, and the ids of the items."""
    found, ids = _read(Y, rows)
    if _is_matrix(Y) and len(ids) == 1:
        raise DataError("Y is a matrix with one label, so there is nothing to rank", _ALONE)
    return found, ids


def read_known_labels(Y: Any, rows: int, known: Ids) -> CSR:
    """Labels as numbers of known ids, those of unnamed columns of a matrix in order; others are dropped."""
    labels, ids = _read(Y, rows)
    if hasattr(Y, "tocsr") or (isinstance(Y, np.ndarray) and _is_matrix(Y)):
        if len(ids) != len(known):
            raise DataError(f"Y has {len(ids):,} columns", f"expected {len(known):,}, one per fitted label")
        return labels
    number = known.find(list(ids)).numpy() if len(ids) else np.zeros(0, np.int64)
    item = number[labels["item"]]
    if not (item >= 0).any():
        raise DataError("no label of Y was fitted", "evaluate on rows with fitted labels")
    row = labels.row_of_entries().numpy()[item >= 0]
    return CSR.from_rows(row, len(labels), item=item[item >= 0], label=labels["label"].numpy()[item >= 0])


def _read(Y: Any, rows: int) -> tuple[CSR, Ids]:
    if Y is None:
        raise DataError("fit requires y to be passed, but the target y is None", "pass labels for each row")
    found, ids = _indicator(unmasked(Y)) if _is_matrix(Y) else _lists(Y)
    if len(found) != rows:
        raise DataError(f"Y has {len(found):,} rows, but X has {rows:,}", "expected labels for each row")
    return found, ids


def _is_matrix(Y: Any) -> bool:
    """Whether columns are labels; a single column of whole numbers or strings has one label per row instead."""
    if hasattr(Y, "tocsr") or isinstance(Y, Mapping) or (hasattr(Y, "columns") and hasattr(Y, "shape")):
        return True
    if not isinstance(Y, np.ndarray) or Y.ndim != 2:
        return False
    return Y.dtype.kind not in ("iuOU" if Y.shape[1] == 1 else "O")


def _lists(Y: Any) -> tuple[CSR, Ids]:
    if isinstance(Y, str | bytes) or not hasattr(Y, "__iter__"):
        raise DataError(f"Y is {shown(Y)}", _LISTS)
    rows = [_row(row, at) for at, row in enumerate(Y.tolist() if isinstance(Y, np.ndarray) else Y)]
    texts = {isinstance(label, str) for row in rows for label in row}
    if len(texts) > 1:
        raise DataError("Y mixes whole numbers and strings", "use one type for all labels")
    kind = pl.String if texts == {True} else pl.Int64
    try:
        column = pl.Series("Y", rows, dtype=pl.List(kind))
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        raise DataError("Y contains a whole number of more than 64 bits", "use strings for such labels") from None
    return read_label_lists(column, "labels")


def _row(row: Any, at: int) -> list[str | int]:
    """The labels of a row as Python values; a single label becomes a list."""
    listed = row.tolist() if hasattr(row, "tolist") else row
    labels = [listed] if isinstance(listed, str | int) else listed
    if not isinstance(labels, list | tuple | set | frozenset | pl.Series):
        raise DataError(f"Y is {shown(row)} in row {at} (from 0)", _LISTS)
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    for label in plain:
        if type(label) not in (int, str) or label == "":
            raise DataError(f"Y contains {shown(label)} in row {at} (from 0)", _LISTS)
    return sorted(plain, key=str) if isinstance(labels, set | frozenset) else plain


def _indicator(Y: Any) -> tuple[CSR, Ids]:
    """Non-zero entries; columns of a table are labels by name, in the order of ids."""
    names = None
    if hasattr(Y, "tocsr"):
        entries = Y.tocsr().tocoo()
        entries.sum_duplicates()
        row, item, value = entries.row, entries.col, entries.data
    else:
        Y, names = (Y, None) if isinstance(Y, np.ndarray) else _dense(Y)
        row, item = np.nonzero(Y)
        value = Y[row, item]
    if value.dtype.kind not in "fiub":
        raise DataError(f"Y is of type {value.dtype}", _LISTS)
    value = check_not_negative("Y", value, row)
    ids = Ids.count(Y.shape[1]) if names is None else Ids.of(names)
    item = item if names is None else ids.find(names).numpy()[item]
    order = np.lexsort((item, row))
    kept = order[value[order] > 0]
    columns = {"item": item[kept].astype(np.int32), "label": value[kept].astype(np.float32)}
    return CSR.from_rows(row[kept].astype(np.int64), Y.shape[0], **columns), ids


def _dense(Y: Any) -> tuple[Array, list[Any]]:
    names = list(Y) if isinstance(Y, Mapping) else list(Y.columns)
    if hasattr(Y, "column_names"):  # Arrow: .columns are values
        names = list(Y.column_names)
    frame = to_polars(Y)
    whole = all(isinstance(name, int | np.integer) for name in names)
    strange = [name for name, kind in frame.schema.items() if not (kind.is_numeric() or kind == pl.Boolean)]
    if strange or any(frame[name].null_count() for name in frame.columns):
        odd = shown((strange or frame.columns)[0])
        raise DataError(f"column {odd} of Y is not numeric in all rows", LABEL_EXPECTED)
    return frame.cast(pl.Float64).to_numpy(), [int(name) for name in names] if whole else list(map(str, names))
