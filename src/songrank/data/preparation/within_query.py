"""Features of documents relative to their query: z-scores and ranks, beside the features or in place of them.

Without lists, a document is compared with the training documents instead: the level of each value among them gives its
rank, and the normal score of that level its z-score.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from songrank.core.columns import Array
from songrank.data.preparation.feature_store import CHUNK_BYTES, FeatureStore
from songrank.data.preparation.quantiles import MAX_ROWS, Quantiles

WithinQuery = Literal["none", "z", "rank", "z-rank", "all"]
FACTORS: dict[WithinQuery, int] = {"none": 1, "z": 1, "rank": 1, "z-rank": 2, "all": 3}
"""Number of columns per feature."""
_EQUAL = 1e-6  # deviations below this fraction of the mean are rounding of equal values


@dataclass(frozen=True, eq=False)
class RelativeFeatures:
    """The columns of a document before the transformation: features, and their values relative to its query.

    With ``quantiles``, features are replaced by their normal scores among training documents; relative values are not.
    """

    how: WithinQuery = "none"
    quantiles: Quantiles | None = None

    def of_lists(self, features: Array, lengths: Array) -> Array:
        """The columns [documents, F or more] of concatenated lists, NaN for missing values."""
        if self.how == "none":
            return self._kept(features)
        if self.how == "all":
            return np.concatenate([self._kept(features), compare_within(features, lengths, "z-rank")], axis=1)
        return compare_within(features, lengths, self.how)

    def of_documents(self, features: Array) -> Array:
        """The columns of documents without lists, which are compared with the training documents."""
        if self.quantiles is None or self.how == "none":
            return self._kept(features)
        scores, ranks = self.quantiles.normal_scores(features), 2 * self.quantiles.levels(features) - 1
        columns = {"z": (scores,), "rank": (ranks,), "z-rank": (scores, ranks), "all": (scores, scores, ranks)}
        found: Array = np.concatenate(columns[self.how], axis=1).astype(np.float32)
        return found

    def _kept(self, features: Array) -> Array:
        if self.quantiles is None:
            return features
        scores: Array = self.quantiles.normal_scores(features).astype(np.float32)
        return scores


@dataclass(frozen=True)
class ListFeatures:
    """The features of a split's lists, as stored or with columns relative to the list."""

    store: FeatureStore
    rows: Array
    offsets: Array

    def sample(self) -> Array:
        """At most :data:`MAX_ROWS` rows, evenly spaced, for their quantiles."""
        count = min(self.rows.shape[0], MAX_ROWS)
        return self.store.rows(self.rows[np.linspace(0, self.rows.shape[0] - 1, count).astype(np.int64)])

    def chunks(self, relative: RelativeFeatures, step: int | None = None) -> Iterator[Array]:
        """Rows in chunks of about ``step``, by default of a moderate size in memory; whole lists if compared."""
        if relative.how == "none":
            empty = np.zeros(0, np.int64)
            yield from (relative.of_lists(rows, empty) for rows in self.store.chunks(self.rows, step))
            return
        yield from (rows for _, _, rows in self.lists(relative, step))

    def lists(self, relative: RelativeFeatures, step: int | None = None) -> Iterator[tuple[int, int, Array]]:
        """Whole lists in chunks of about ``step`` rows: the first list, the last + 1, and their rows."""
        num_columns = self.store.num_features * FACTORS[relative.how]
        step = step or max(1, CHUNK_BYTES // (8 * max(1, num_columns)))
        first = 0
        while first + 1 < self.offsets.shape[0]:
            fitting = int(np.searchsorted(self.offsets, self.offsets[first] + step, side="right")) - 1
            last = max(fitting, first + 1)
            rows = self.store.rows(self.rows[self.offsets[first] : self.offsets[last]])
            yield first, last, relative.of_lists(rows, np.diff(self.offsets[first : last + 1]))
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
