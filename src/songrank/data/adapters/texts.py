"""Texts as users have them: lists, arrays, or one column."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from songrank.core.errors import DataError, shown
from songrank.data.adapters.frames import kind_of


def as_texts(X: Any) -> list[str] | None:
    """X as texts, or None if it holds something else.

    >>> as_texts(np.array(["a", "b"])), as_texts([[1.0]])
    (['a', 'b'], None)
    """
    if isinstance(X, str):
        raise DataError("X is one text", "expected several: [X]")
    if hasattr(X, "tocsr") or isinstance(X, Mapping) or getattr(X, "ndim", 1) != 1 or hasattr(X, "columns"):
        return None
    if kind_of(X) == "pyarrow":
        X = X.to_pylist()
    listed = X.tolist() if isinstance(X, np.ndarray) else list(X) if hasattr(X, "__iter__") else []
    wrong = [row for row, text in enumerate(listed) if not isinstance(text, str)]
    if wrong and len(wrong) < len(listed):
        raise DataError(f"X is {shown(listed[wrong[0]])} in row {wrong[0]} (from 0)", "expected a text in every row")
    return listed if listed and not wrong else None
