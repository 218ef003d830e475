"""Normalisation of features within each query: z-scores and ranks, without fitted parameters."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.data.preparation.feature_store import CHUNK_BYTES, FeatureStore

WithinQuery = Literal["none", "z", "rank", "z-rank"]
_EQUAL = 1e-6  # deviations below this fraction of the mean are rounding of equal values


@dataclass(frozen=True)
class ListFeatures:
    """The features of a split's lists, as stored or normalised within each list."""

    store: FeatureStore
    rows: Array
    offsets: Array
    how: WithinQuery

    @property
    def num_features(self) -> int:
        """Number of features per row."""
        return self.store.num_features * (2 if self.how == "z-rank" else 1)

    def chunks(self, step: int | None = None) -> Iterator[Array]:
        """Rows in chunks of about ``step``, by default of a moderate size in memory; whole lists if normalised."""
        if self.how == "none":
            yield from self.store.chunks(self.rows, step)
            return
        step = step or max(1, CHUNK_BYTES // (8 * max(1, self.num_features)))
        first = 0
        while first + 1 < self.offsets.shape[0]:
            fitting = int(np.searchsorted(self.offsets, self.offsets[first] + step, side="right")) - 1
            last = max(fitting, first + 1)
            rows = self.rows[self.offsets[first] : self.offsets[last]]
            yield compare_within(self.store.rows(rows), np.diff(self.offsets[first : last + 1]), self.how)
            first = last


def compare_within(features: Array, lengths: Array, how: WithinQuery) -> Array:
    """Features [documents, F] of concatenated lists, as z-scores, as ranks from −1 to 1, or both.

    Missing values (NaN) stay missing and are ignored; a feature that is constant within a list is 0 there.
    """
    if features.shape[0] == 0:
        return np.zeros((0, features.shape[1] * (2 if how == "z-rank" else 1)), np.float32)
    names = [str(number) for number in range(features.shape[1])]
    table = pl.from_numpy(np.asarray(features, np.float64), schema=names).with_columns(pl.all().fill_nan(None))
    table = table.with_columns(query=np.repeat(np.arange(lengths.shape[0]), lengths))
    wanted = [_z(name).alias(f"z{name}") for name in names if how != "rank"]
    wanted += [_rank(name).alias(f"rank{name}") for name in names if how != "z"]
    found: Array = table.select(wanted).cast(pl.Float32).to_numpy()
    return found


def _z(name: str) -> pl.Expr:
    mean, deviation = pl.col(name).mean().over("query"), pl.col(name).std(ddof=0).over("query")
    varies = deviation > _EQUAL * pl.max_horizontal(mean.abs(), pl.lit(_EQUAL))
    known = pl.when(varies).then((pl.col(name) - mean) / deviation).otherwise(0.0)
    return pl.when(pl.col(name).is_null()).then(None).otherwise(known)


def _rank(name: str) -> pl.Expr:
    rank, count = pl.col(name).rank("average").over("query"), pl.col(name).count().over("query")
    return pl.when(count > 1).then(2 * (rank - 1) / (count - 1) - 1).otherwise(rank * 0)
