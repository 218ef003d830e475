"""Texts and ids as lists, arrays, or a column of pandas, polars or Arrow."""

from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from songrank.core.errors import DataError, UserError, shown
from songrank.data.adapters.frames import kind_of


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
