"""Mapping of original ids to indices from 0, in blocks."""

import re
from collections.abc import Iterable

import numpy as np
import polars as pl
import torch

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.core.ids import Ids

WHOLE = r"(?:0|-?[1-9][0-9]{0,18})"
"""A canonical integer: ``"007"`` and ``"+7"`` are strings, not 7."""


class IdColumn:
    """Collects ids of any type; integers, also in text files, are kept as integers.

    Indices follow the sorted order of ids, not their appearance or frequency.
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._parts: list[Array] = []
        self._integers = False

    def add(self, values: pl.Series) -> None:
        """Append integers or strings. Once a block has strings, all ids are strings."""
        if values.dtype.is_integer() and not self._known:
            self._integers = True
            self._parts.append(values.cast(pl.Int64).to_numpy())
            return
        if self._integers:
            earlier, self._parts, self._integers = self._parts, [], False
            for part in earlier:
                self.add(pl.Series(part).cast(pl.String))
        values = values.cast(pl.String)
        distinct, known = values.unique(), self._known
        codes = [known.setdefault(text, len(known)) for text in distinct.to_list()]
        numbers = values.replace_strict(distinct, pl.Series(codes, dtype=pl.Int32), return_dtype=pl.Int32)
        self._parts.append(numbers.to_numpy().astype(np.int32, copy=False))  # an empty column has no dtype

    def finish(self) -> tuple[Array, Ids]:
        """The index of the id of each row, and the ids."""
        column = np.concatenate(self._parts) if self._parts else np.zeros(0, np.int32)
        self._parts = []
        if self._integers:
            return number_integers(column)
        texts = list(self._known)
        whole = all(re.fullmatch(WHOLE, text) and -(2**63) <= int(text) < 2**63 for text in texts)
        order = sorted(range(len(texts)), key=(lambda i: int(texts[i])) if whole else (lambda i: texts[i].encode()))
        rank = np.empty(len(texts), np.int32)
        rank[order] = np.arange(len(texts), dtype=np.int32)
        ordered = [texts[i] for i in order]
        ids = Ids.of(np.array([int(text) for text in ordered], np.int64)) if whole else Ids.from_texts(ordered)
        return rank[column], ids


def ids_in_order(parts: Iterable[pl.Series]) -> Ids:
    """Ids from blocks of distinct, sorted integers or strings, without a Python object per id.

    >>> ids_in_order([pl.Series(["a", "b"]), pl.Series(["c"])])[:]
    ['a', 'b', 'c']
    """
    values, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    texts = False
    for part in parts:
        texts = part.dtype == pl.String
        if texts:
            data = part.str.join("").item().encode()
            values.append(np.frombuffer(data, np.uint8))
            lengths.append(part.str.len_bytes().to_numpy().astype(np.int64))
        else:
            values.append(part.cast(pl.Int64).to_numpy())
    if not texts:
        return Ids.ascending(np.concatenate(values))
    data, offsets = np.concatenate(values[1:]), numpy_offsets(np.concatenate(lengths))
    return Ids.from_arrays("id", {"id": torch.from_numpy(data), "id.offsets": torch.from_numpy(offsets)})


def number_integers(column: Array) -> tuple[Array, Ids]:
    """Ranks of integers among their distinct values."""
    if not column.shape[0]:
        return column.astype(np.int32), Ids.of(np.zeros(0, np.int64))
    low, high = int(column.min()), int(column.max())
    if high - low <= 4 * column.shape[0] + 1024:  # a lookup table is much faster than sorting
        seen = np.zeros(high - low + 1, bool)
        seen[column - low] = True
        by_value = np.cumsum(seen, dtype=np.int32) - 1
        return by_value[column - low], Ids.ascending(np.flatnonzero(seen) + low)
    distinct, rank = np.unique(column, return_inverse=True)
    return rank.astype(np.int32), Ids.ascending(distinct)
