"""Mapping between original ids of users and items and internal indices from 0."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets


class Ids:
    """Bidirectional mapping between indices and original ids: distinct integers or strings, sorted."""

    def __init__(self, values: Tensor, offsets: Tensor | None = None) -> None:
        self._values, self._offsets = values, offsets
        self.kind: Literal["integer", "text"] = "integer" if offsets is None else "text"
        self._numbers: dict[str, int] | None = None

    @classmethod
    def of(cls, values: Sequence[int] | Sequence[str] | Array) -> "Ids":
        """Ids of the distinct ``values``, sorted; strings by their bytes."""
        column = values if isinstance(values, np.ndarray) else np.asarray(values)
        if column.dtype.kind in "iu":
            return cls(torch.from_numpy(np.unique(column).astype(np.int64)))
        return cls.from_texts(sorted({str(value) for value in values}, key=str.encode))

    @classmethod
    def ascending(cls, numbers: Array) -> "Ids":
        """Ids from distinct, sorted integers."""
        return cls(torch.from_numpy(numbers.astype(np.int64)))

    @classmethod
    def count(cls, number: int) -> "Ids":
        """The ids 0 to number − 1."""
        return cls(torch.arange(number))

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> "Ids":
        """Ids from distinct, sorted strings."""
        encoded = [text.encode("utf-8") for text in texts]
        data = np.frombuffer(b"".join(encoded), np.uint8).copy()
        return cls(torch.from_numpy(data), torch.from_numpy(numpy_offsets([len(text) for text in encoded])))

    def arrays(self, name: str) -> dict[str, Array]:
        """The arrays to save; the inverse of :meth:`from_arrays`."""
        parts = {name: self._values.numpy()}
        if self._offsets is not None:
            parts[f"{name}.offsets"] = self._offsets.numpy()
        return parts

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, Tensor]) -> "Ids":
        """Ids from saved arrays, which may be memory-mapped."""
        return cls(arrays[name], arrays.get(f"{name}.offsets"))

    def is_valid(self) -> bool:
        """Whether saved ids are valid: ascending integers, or distinct strings."""
        stored = self.arrays("id")
        values, offsets = stored["id"], stored.get("id.offsets")
        if values.ndim != 1:
            return False
        if offsets is None:
            return values.dtype == np.int64 and bool((values[1:] > values[:-1]).all())
        whole = offsets[0] == 0 and offsets[-1] == values.shape[0] and bool((offsets[1:] >= offsets[:-1]).all())
        return whole and (values.dtype, offsets.dtype) == (np.uint8, np.int64) and len(set(self)) == len(self)

    def keep(self, numbers: Array) -> "Ids":
        """The ids at these ascending indices."""
        if len(numbers) == len(self):
            return self
        if self._offsets is None:
            return Ids(self._values[torch.from_numpy(numbers)])
        lengths, kept = np.diff(self._offsets.numpy()), np.zeros(len(self), bool)
        kept[numbers] = True
        values = self._values.numpy()[np.repeat(kept, lengths)]
        return Ids(torch.from_numpy(values), torch.from_numpy(numpy_offsets(lengths[kept])))

    def __repr__(self) -> str:
        first = ", ".join(map(repr, self[:3])) + (", …" if len(self) > 3 else "")
        return f"Ids({len(self):,}: {first})" if len(self) else "Ids(0)"

    def __len__(self) -> int:
        return self._values.shape[0] if self._offsets is None else self._offsets.shape[0] - 1

    def __getitem__(self, number: Any) -> Any:
        """The id at this index; a list of ids for a slice, a tensor or a sequence of indices."""
        if isinstance(number, slice):
            return [self[at] for at in range(*number.indices(len(self)))]
        if isinstance(number, Sequence) or getattr(number, "ndim", 0) > 0:
            return [self[int(at)] for at in number]
        number = int(number)
        if not -len(self) <= number < len(self):
            raise IndexError(f"index is {number}; expected an index below {len(self)}")
        number %= len(self)
        if self._offsets is None:
            return int(self._values[number])
        start, end = int(self._offsets[number]), int(self._offsets[number + 1])
        return self._values[start:end].numpy().tobytes().decode("utf-8")

    def __iter__(self) -> Iterator[Any]:
        if self._offsets is None:
            yield from self._values.tolist()
        else:
            data = self._values.numpy().tobytes()
            yield from (data[a:b].decode("utf-8") for a, b in pairwise(self._offsets.tolist()))

    def has_text(self, text: str) -> bool:
        """Whether a text is an id, by bisection.

        >>> Ids.of(["None", "a"]).has_text("None"), Ids.of([1, 2]).has_text("1")
        (True, False)
        """
        if self._offsets is None:
            return False
        at = bisect_left(self, text.encode(), key=str.encode)
        return at < len(self) and self[at] == text

    def find(self, values: Any) -> Tensor:
        """The index of each id of a sequence, array, tensor or polars column; −1 for unknown ids."""
        if self._offsets is None:
            asked, whole = _whole_numbers(values)
            if not len(self):
                return torch.full_like(asked, -1)
            at = torch.searchsorted(self._values, asked).clamp(max=len(self) - 1)
            return torch.where((self._values[at] == asked) & whole, at, -1)
        if self._numbers is None:
            self._numbers = {text: number for number, text in enumerate(self)}
        known = self._numbers
        return torch.tensor([known.get(str(value), -1) for value in _plain(values)], dtype=torch.int64)


def _plain(values: Any) -> Sequence[Any]:
    as_list = getattr(values, "tolist", None) or getattr(values, "to_list", None)  # to_list for polars columns
    return list(values) if as_list is None else as_list()


def _whole_numbers(values: Any) -> tuple[Tensor, Tensor]:
    """Ids as int64, and a mask of the valid integers."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    if hasattr(values, "to_numpy") and hasattr(values, "null_count") and values.dtype.is_integer():
        values = values.to_numpy()  # float if a value is missing; converted one by one below
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.dtype != np.uint64:
        return torch.from_numpy(values.astype(np.int64)), torch.ones(values.shape[0], dtype=torch.bool)
    numbers = [_as_int(value) for value in _plain(values)]
    whole = torch.tensor([number is not None for number in numbers], dtype=torch.bool)
    return torch.tensor([number or 0 for number in numbers], dtype=torch.int64), whole


def _as_int(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    exact = number == value if not isinstance(value, str) else str(number) == value
    return number if exact and -(2**63) <= number < 2**63 else None
