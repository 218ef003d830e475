"""What all readers of list tasks share: rows of labelled documents become splits of whole lists.

Readers hand over blocks of rows in any order; a query's rows need not stand together. Features wait on disk until all
is read, since only then the splits, and so the training rows that the transformation may learn from, are known. Memory
is needed for labels and query numbers alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.core.errors import DataError, shown
from songrank.core.ids import Ids
from songrank.data.content import Content
from songrank.data.dataset import SPLITS
from songrank.data.preparation.feature_store import FeatureStore
from songrank.data.preparation.feature_transform import FeatureTransform, LogFeatures, Missing
from songrank.data.preparation.query_splits import TRAIN, split_queries
from songrank.data.preparation.within_query import ListFeatures, WithinQuery
from songrank.data.preparation_options import QuerySplitOptions
from songrank.io.arrays import Pieces
from songrank.io.source import Job
from songrank.io.tables.id_columns import IdColumn

MEASURED_ROWS = 1024  # at a time, whatever their width, on which only other splits may have an influence


class ListOptions(QuerySplitOptions):
    """Lists of documents to splits and features.

    ``truncate`` does not shorten what is stored: it is written down, and the sampler draws training lists of that
    length that hold relevant and irrelevant documents (``SlateSampler(length=…)``). Evaluation sees full lists.
    """

    standardise: bool = Field(False, description="features to mean 0 and deviation 1 on the training split")
    log_features: LogFeatures = Field(
        "none", description="log(1 + x) of no features, of heavy-tailed ones (auto), or of all"
    )
    missing: Missing = Field(
        "zero", description="for unknown values: 0, or the training split's mean or smallest value"
    )
    missing_flags: bool = Field(
        False, description="a column more for each feature that is unknown in some training rows: 1 there, else 0"
    )
    within_query: WithinQuery = Field(
        "none", description="compare with the query's other documents: z-scores, ranks, or both (twice the features)"
    )
    truncate: int | None = Field(None, ge=3, description="length to which lists are cut in training; stored whole")
    dtype: Literal["float32", "float16"] = Field("float32", description="how features are stored")


class ListRows:
    """Rows of documents on their way in: query, label, features and what the source says about the split.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = ListRows(Path(folder))
    ...     rows.features.add(np.array([[1.0], [2.0], [3.0]]))
    ...     rows.add(pl.Series(["b", "a", "b"]), np.array([0, 1, 1]), np.array([0, 2, 0]))
    ...     content = rows.content(ListOptions(), Job())
    >>> content.splits["train"]["label"].tolist(), list(content.query_ids["test"])
    ([0.0, 1.0], ['a'])
    """

    def __init__(self, scratch: Path) -> None:
        self.features = FeatureStore(scratch)
        self._query: list[pl.Series] = []
        self._label: list[Array] = []
        self._split: list[Array] = []
        self._weight: list[Array] = []

    def add(self, query: pl.Series, label: Array, split: Array, weight: Array | None = None) -> None:
        """Take in rows whose features were added already; queries have weights in all blocks or in none."""
        self._query.append(query)
        self._label.append(np.asarray(label, np.float32))
        self._split.append(np.asarray(split, np.uint8))
        if weight is not None:
            self._weight.append(np.asarray(weight, np.float32))

    def content(self, options: ListOptions, job: Job, described: Mapping[str, Any] | None = None) -> Content:
        """Group, split and transform what was added; ``described`` is more about the features for ``dataset.json``."""
        if not self.features.num_features:
            raise DataError("no row has a feature", "expected at least one: nothing could be learned")
        query, ids = _number_queries(self._query)
        splits = _group(query, split_queries(query, np.concatenate(self._split), ids, options))
        label = np.concatenate(self._label)
        if not (label[splits[TRAIN].rows] > 0).any():
            raise DataError("no label for training is above 0", "nothing could be learned: check the labels")
        weight = query_weights(query, np.concatenate(self._weight), ids) if self._weight else None
        job.count("missing values replaced", self.features.num_missing)
        job.report("measuring features", 0, None)
        lists = {
            code: ListFeatures(self.features, split.rows, split.offsets, options.within_query)
            for code, split in splits.items()
        }
        transform = _fit(lists[TRAIN], options)
        dtype = np.dtype(options.dtype)
        self.features.check_space(self.features.num_rows, transform.num_features, dtype.itemsize)
        arrays: dict[str, dict[str, Array | Pieces]] = {}
        for code, split in splits.items():
            features = _Transformed(lists[code], transform, dtype).pieces()
            arrays[SPLITS[code]] = {"offsets": split.offsets, "label": label[split.rows], "features": features}
            if weight is not None:
                arrays[SPLITS[code]]["weight"] = weight[split.queries]
        query_ids = {SPLITS[code]: ids.keep(split.queries) for code, split in splits.items()}
        extra = {
            "features": {
                "count": transform.num_features,
                "dtype": dtype.name,
                **({"within_query": options.within_query} if options.within_query != "none" else {}),
                **(described or {}),
            },
            "transform": transform.to_json(),
            "training": {"list_size": options.truncate},
        }
        return Content("search", arrays, query_ids, None, extra)


def _fit(features: ListFeatures, options: ListOptions) -> FeatureTransform:
    return FeatureTransform.fit(
        features.chunks(MEASURED_ROWS),
        features.num_features,
        standardise=options.standardise,
        log_features=options.log_features,
        missing=options.missing,
        flags=features.store.num_features if options.missing_flags else 0,
    )


def _number_queries(blocks: Sequence[pl.Series]) -> tuple[Array, Ids]:
    """Number of each row's query in the order of ids. Ids that are whole numbers in some blocks only are texts."""
    column = IdColumn()
    whole = all(block.dtype.is_integer() for block in blocks)
    for block in blocks:
        column.add(block if whole else block.cast(pl.String))
    return column.finish()


def query_weights(query: Array, weight: Array, ids: Ids) -> Array:
    """The weight of each query, which all its rows must agree on.

    >>> query_weights(np.array([0, 1, 0]), np.array([2.0, 1.0, 2.0]), Ids.of(["a", "b"])).tolist()
    [2.0, 1.0]
    """
    found = np.zeros(len(ids), np.float32)
    found[query] = weight
    odd = np.flatnonzero(found[query] != weight)
    if odd.shape[0]:
        at = int(odd[0])
        raise DataError(
            f"query {shown(ids[query[at]])} has rows of weight {weight[at]:g} and {found[query[at]]:g}",
            "give all rows of a query the same weight",
        )
    return found


@dataclass(frozen=True)
class _Split:
    queries: Array
    offsets: Array
    rows: Array


def _group(query: Array, codes: Array) -> dict[int, _Split]:
    """Rows of each split, by query; within a query in the order in which they came."""
    order = np.argsort(query, kind="stable")
    code, lengths = codes[query[order]], np.bincount(query, minlength=codes.shape[0])
    splits = {}
    for split in np.unique(codes).tolist():
        queries = np.flatnonzero(codes == split)
        splits[split] = _Split(queries, numpy_offsets(lengths[queries]), order[code == split])
    return splits


@dataclass(frozen=True)
class _Transformed:
    """The features of a split as they are stored, made anew each time they are asked for."""

    features: ListFeatures
    transform: FeatureTransform
    dtype: np.dtype[Any]

    def pieces(self) -> Pieces:
        return Pieces((self.features.rows.shape[0], self.transform.num_features), self.dtype, self)

    def __iter__(self) -> Iterator[Array]:
        for chunk in self.features.chunks():
            yield self.transform.apply(chunk, self.dtype)
