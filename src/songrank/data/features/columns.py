"""Encoders of feature columns; what they learn from training rows is stored with the prepared data and the model."""

import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
import torch
from torch import Tensor

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.preparation.vocabulary import tokenise
from songrank.io.tables import typed_columns
from songrank.io.tables.typed_columns import read_column

BUCKETS = 4096
"""Number of hashed words of a text column."""
LEAST = 2
"""Minimum number of training rows with a category; rarer ones count as unknown."""
LEAST_WORDS = 5
"""Minimum number of training rows with a word; rarer ones are left out, since they only identify a row."""
BINS = 10
"""Number of quantile bins of a numeric column."""
_MOST = 10.0  # standard deviations from the mean
_UNKNOWN, _MISSING, _FIRST = 0, 1, 2
_DAY = 86_400_000_000  # microseconds
_NUMBER_EXPECTED = "expected a number, or an empty cell"
_VECTOR_EXPECTED = "expected lists of finite numbers of one length, or empty cells"
_SEPARATORS = ("|", ";", ",")


@dataclass(frozen=True)
class Encoded:
    """The features of N rows: ``dense`` [N, F], and ``lengths[n]`` sparse entries of each row n.

    ``unknown`` counts values that are not in the vocabulary.
    """

    dense: Array
    lengths: Array
    index: Array
    value: Array
    unknown: int = 0


def _only_dense(dense: Array) -> Encoded:
    return Encoded(dense, np.zeros(dense.shape[0], np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))


def _only_sparse(rows: Sequence[Sequence[tuple[int, float]]], unknown: int) -> Encoded:
    lengths = np.array([len(row) for row in rows], np.int64)
    index = np.array([at for row in rows for at, _ in row], np.int64)
    value = np.array([weight for row in rows for _, weight in row], np.float32)
    return Encoded(np.zeros((len(rows), 0), np.float32), lengths, index, value, unknown)


class FeatureColumn(ABC):
    """The encoder of one column.

    Args:
        name: name of the column.
        numbers: what was learned, as JSON.
        arrays: what was learned, as arrays.
    """

    kind: ClassVar[str]

    def __init__(self, name: str, numbers: Mapping[str, Any], arrays: Mapping[str, Tensor]) -> None:
        self.name, self.numbers, self.arrays = name, dict(numbers), dict(arrays)

    @classmethod
    @abstractmethod
    def fit(cls, values: pl.Series, train: pl.Series, file: str) -> Self:
        """Learn from the rows in ``train``, some of ``values``; ``file`` is named in errors."""

    @abstractmethod
    def encode(self, values: pl.Series, file: str) -> Encoded:
        """The features of these rows."""

    @property
    def dense(self) -> int:
        """Number of dense features."""
        return 0

    @property
    def sparse(self) -> int:
        """Number of sparse features."""
        return 0

    @property
    def is_useful(self) -> bool:
        """Whether the column distinguishes rows."""
        return True

    def described(self) -> dict[str, Any]:
        """The description for JSON."""
        return {"name": self.name, "kind": self.kind, **self.numbers}


class Numeric(FeatureColumn):
    """Numbers: (x − mean) / standard deviation of training rows, within ±10; 1 where missing; and one of 10 bins with
    equally many training rows.
    """

    kind = "numeric"

    @classmethod
    def fit(cls, values: pl.Series, train: pl.Series, file: str) -> Self:
        """Mean, standard deviation, and the lower bounds of the bins."""
        known = cls._numbers(train, file)
        known = known[~np.isnan(known)]
        mean = float(known.mean()) if known.shape[0] else 0.0
        deviation = float(known.std()) if known.shape[0] else 0.0
        bounds = np.unique(np.quantile(known, np.arange(1, BINS) / BINS)) if known.shape[0] else np.zeros(0)
        return cls(values.name, {"mean": mean, "deviation": deviation or 1.0, "bounds": bounds.tolist()}, {})

    def encode(self, values: pl.Series, file: str) -> Encoded:
        """Two dense features, and one sparse feature unless missing."""
        numbers = self._numbers(values, file)
        found = (numbers - self.numbers["mean"]) / self.numbers["deviation"]
        missing = np.isnan(found)
        place = np.searchsorted(np.array(self.numbers["bounds"]), numbers[~missing], side="right")
        dense = np.stack([np.where(missing, 0.0, found.clip(-_MOST, _MOST)), missing], axis=1)
        lengths = (~missing).astype(np.int64)
        return Encoded(dense.astype(np.float32), lengths, place.astype(np.int64), np.ones(place.shape[0], np.float32))

    @property
    def sparse(self) -> int:
        """The number of bins."""
        return len(self.numbers["bounds"]) + 1

    @classmethod
    def _numbers(cls, values: pl.Series, file: str) -> Array:
        return read_column(typed_columns.read_features, values, _NUMBER_EXPECTED, file)

    @property
    def dense(self) -> int:
        """2."""
        return 2


class Date(Numeric):
    """Dates and times: days, as in :class:`Numeric`."""

    kind = "date"

    @classmethod
    def _numbers(cls, values: pl.Series, file: str) -> Array:
        days = np.full(len(values), np.nan)
        empty = values.is_null()
        if values.dtype == pl.String:
            empty = empty | (values.str.strip_chars() == "")
        known = (~empty).to_numpy()
        if known.any():
            kind, times = read_column(
                typed_columns.read_times, values.filter(~empty), typed_columns.TIME_EXPECTED, file
            )
            unit = 1 if kind == "numbers" else _DAY * (1000 if kind == "dates in ns" else 1)
            days[known] = times / unit
        return days


class Categorical(FeatureColumn):
    """Categories with at least 2 training rows; one sparse feature for other categories, one where missing."""

    kind = "categorical"

    @classmethod
    def fit(cls, values: pl.Series, train: pl.Series, file: str) -> Self:
        """The vocabulary."""
        told = cls._told(values)
        counts = Counter(one for row in cls._values(train, told) for one in set(row or ()))
        known = sorted((one for one, count in counts.items() if count >= LEAST), key=str.encode)
        return cls(
            values.name, told, {k: torch.from_numpy(v) for k, v in Ids.from_texts(known).arrays("known").items()}
        )

    @property
    def vocabulary(self) -> Ids:
        """The known categories."""
        return Ids.from_arrays("known", self.arrays)

    def encode(self, values: pl.Series, file: str) -> Encoded:
        """One sparse feature per category, weighted by 1 / √n for n categories."""
        known = {text: at for at, text in enumerate(self.vocabulary, _FIRST)}
        rows, unknown = [], 0
        for row in self._values(values, self.numbers):
            if not row:
                rows.append([(_MISSING, 1.0)])
                continue
            places = [known.get(one, _UNKNOWN) for one in dict.fromkeys(row)]
            unknown += places.count(_UNKNOWN)
            rows.append([(place, len(places) ** -0.5) for place in places])
        return _only_sparse(rows, unknown)

    @classmethod
    def _told(cls, values: pl.Series) -> dict[str, Any]:
        return {}

    @classmethod
    def _values(cls, values: pl.Series, told: Mapping[str, Any]) -> list[list[str] | None]:
        return [None if text is None else [text] for text in as_texts(values)]

    @property
    def sparse(self) -> int:
        """Known categories, and two more."""
        return len(self.vocabulary) + _FIRST

    @property
    def is_useful(self) -> bool:
        """Whether a category is repeated."""
        return len(self.vocabulary) > 0


class MultiValued(Categorical):
    """Several categories per row: a list, or a text with ``|``, ``;`` or ``,`` between them."""

    kind = "multi-valued"

    @classmethod
    def _told(cls, values: pl.Series) -> dict[str, Any]:
        if values.dtype != pl.String:
            return {"separator": None}
        return {"separator": next((mark for mark in _SEPARATORS if values.str.contains(mark, literal=True).any()), "|")}

    @classmethod
    def _values(cls, values: pl.Series, told: Mapping[str, Any]) -> list[list[str] | None]:
        if values.dtype in (pl.List, pl.Array):
            return [None if row is None else [text for text in as_texts(row) if text] for row in values]
        mark = told["separator"] or "|"
        texts = as_texts(values)
        return [None if text is None else [part.strip() for part in text.split(mark) if part.strip()] for text in texts]


class Text(FeatureColumn):
    """Words, hashed to 4,096 sparse features with tf-idf weights of Euclidean length 1."""

    kind = "text"

    @classmethod
    def fit(cls, values: pl.Series, train: pl.Series, file: str) -> Self:
        """log((n + 1) / (d + 1)) + 1 for d of n training rows with a word of the bucket; 0 for d below 5."""
        rows = [text for text in as_texts(train) if text is not None]
        counts = np.zeros(BUCKETS)
        for text in rows:
            counts[list({_bucket(word) for word in tokenise(text)})] += 1
        weight = np.where(counts < LEAST_WORDS, 0.0, np.log((len(rows) + 1) / (counts + 1)) + 1)
        return cls(values.name, {"buckets": BUCKETS}, {"idf": torch.from_numpy(weight.astype(np.float32))})

    def encode(self, values: pl.Series, file: str) -> Encoded:
        """One sparse feature per bucket with a word; none where missing."""
        idf, rows = self.arrays["idf"].numpy(), []
        for text in as_texts(values):
            counts = Counter(_bucket(word) for word in tokenise(text or ""))
            weights = {at: count * float(idf[at]) for at, count in sorted(counts.items()) if idf[at]}
            length = sum(weight**2 for weight in weights.values()) ** 0.5
            rows.append([(at, weight / length) for at, weight in weights.items()])
        return _only_sparse(rows, 0)

    @property
    def sparse(self) -> int:
        """The number of buckets."""
        return int(self.numbers["buckets"])

    @property
    def is_useful(self) -> bool:
        """Whether a word is repeated."""
        return bool(self.arrays["idf"].any())


class Embedding(FeatureColumn):
    """Precomputed vectors, a list column: each dimension as in :class:`Numeric`; and 1 where missing."""

    kind = "embedding"

    @classmethod
    def fit(cls, values: pl.Series, train: pl.Series, file: str) -> Self:
        """Mean and standard deviation of each dimension."""
        found = _vectors(train, file)
        known = found[~np.isnan(found[:, 0])] if found.shape[1] else found
        if not known.size:
            raise DataError(f"{values.name} has no vector", _VECTOR_EXPECTED, file=file)
        deviation = known.std(axis=0)
        deviation[deviation == 0] = 1.0
        learned = {"mean": known.mean(axis=0), "deviation": deviation}
        arrays = {name: torch.from_numpy(array.astype(np.float32)) for name, array in learned.items()}
        return cls(values.name, {"width": found.shape[1]}, arrays)

    def encode(self, values: pl.Series, file: str) -> Encoded:
        """One dense feature per dimension, and one more."""
        found, width = _vectors(values, file), int(self.numbers["width"])
        if found.shape[1] not in (0, width):
            what = f"{self.name} has vectors of length {found.shape[1]}"
            raise DataError(what, f"expected length {width}, as in training", file=file)
        found = found if found.shape[1] else np.full((len(values), width), np.nan)
        scaled = (found - self.arrays["mean"].numpy()) / self.arrays["deviation"].numpy()
        missing = np.isnan(scaled[:, :1])
        dense = np.concatenate([np.where(missing, 0.0, scaled.clip(-_MOST, _MOST)), missing], axis=1)
        return _only_dense(dense.astype(np.float32))

    @property
    def dense(self) -> int:
        """The length of the vectors, and 1."""
        return int(self.numbers["width"]) + 1


KINDS: dict[str, type[FeatureColumn]] = {
    kind.kind: kind for kind in (Numeric, Date, Categorical, MultiValued, Text, Embedding)
}
"""Encoders by kind of column."""


def as_texts(values: pl.Series) -> list[str | None]:
    """Values as texts, None where missing or empty; whole numbers are written alike in all types.

    >>> as_texts(pl.Series([7.0, None, 2.5])), as_texts(pl.Series(["7", " ", True], strict=False))
    (['7', None, '2.5'], ['7', None, 'true'])
    """
    if values.dtype.is_float():
        return [None if x is None or x != x else str(int(x)) if float(x).is_integer() else repr(x) for x in values]
    return [(text.strip() or None) if text is not None else None for text in values.cast(pl.String).to_list()]


def _bucket(word: str) -> int:
    return zlib.crc32(word.encode()) % BUCKETS


def _vectors(values: pl.Series, file: str) -> Array:
    """[N, D] float64, NaN where missing; D is 0 if all are missing."""
    if values.dtype not in (pl.List, pl.Array):
        if values.null_count() == len(values):
            return np.zeros((len(values), 0))
        raise DataError(f"{values.name} has values of type {values.dtype}", _VECTOR_EXPECTED, file=file)
    known = values.drop_nulls()
    try:
        found = np.asarray(known.to_list(), np.float64) if len(known) else np.zeros((0, 0))
        sound = found.ndim == 2 and bool(np.isfinite(found).all())
    except (TypeError, ValueError):  # of different lengths, or no numbers
        sound = False
    if not sound:
        raise DataError(
            f"{values.name} has vectors that differ in length or are not finite", _VECTOR_EXPECTED, file=file
        )
    vectors = np.full((len(values), found.shape[1]), np.nan)
    vectors[(~values.is_null()).to_numpy()] = found
    return vectors


def join(parts: Sequence[Encoded], starts: Sequence[int]) -> tuple[Array, Array, Array, Array]:
    """Dense features, lengths, indices and values of several columns, whose sparse features begin at ``starts``."""
    rows = parts[0].lengths.shape[0]
    dense = np.concatenate([part.dense for part in parts], axis=1)
    lengths = np.sum([part.lengths for part in parts], axis=0)
    row = np.concatenate([np.repeat(np.arange(rows), part.lengths) for part in parts])
    index = np.concatenate([part.index + start for part, start in zip(parts, starts, strict=True)])
    order = np.argsort(row, kind="stable")
    assert numpy_offsets(lengths)[-1] == index.shape[0]
    return dense, lengths, index[order], np.concatenate([part.value for part in parts])[order]
