"""Common steps of readers of list tasks: from rows of labelled documents to splits of whole lists.

Readers add blocks of rows in any order; rows of a query need not be adjacent. Features are kept on disk until all rows
are read: only then the training rows, to which the transformation is fitted, are known.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.core.errors import DataError, shown
from songrank.core.ids import Ids
from songrank.data.content import Arrays, Content
from songrank.data.dataset import SPLITS
from songrank.data.preparation.column_signal import ColumnSignal
from songrank.data.preparation.feature_store import FeatureStore
from songrank.data.preparation.feature_transform import FeatureTransform, LogFeatures, Missing
from songrank.data.preparation.quantiles import Quantiles
from songrank.data.preparation.splits import TRAIN, split_queries
from songrank.data.preparation.within_query import FACTORS, ListFeatures, RelativeFeatures, WithinQuery
from songrank.data.preparation_options import QuerySplitOptions
from songrank.io.arrays import Pieces
from songrank.io.source import Job
from songrank.io.tables.id_columns import IdColumn

_MEASURED_ROWS = 1024  # per chunk, independent of the width, which depends on all splits


class ListOptions(QuerySplitOptions):
    """Options of document lists: splits and features.

    ``truncate`` does not shorten stored lists: it is the ``length`` of the sampler in training. Evaluation uses full
    lists.
    """

    standardise: bool = Field(
        False, description="Scale features to mean 0 and standard deviation 1 on the training split."
    )
    log_features: LogFeatures = Field(
        "none", description="Apply log(1 + x) to no features, to heavy-tailed ones (auto), or to all."
    )
    missing: Missing = Field(
        "zero", description="Replace missing values by 0, or by the mean or minimum of the training split."
    )
    missing_flags: bool = Field(False, description="Add a 0/1 column for each feature with missing values in training.")
    quantiles: bool = Field(
        False,
        description="Replace features by their normal scores: the standard normal quantile of the fraction of training "
        "rows below the value. Outliers are at most 3.1 from the centre.",
    )
    within_query: WithinQuery = Field(
        "none",
        description="Normalise within each query: z-scores, ranks, or both (twice the features); all: the features "
        "themselves, z-scores and ranks (three times the features).",
    )
    shrink: bool = Field(
        False,
        description="Scale columns by their correlation with the label within training queries, from 0.2 (none) to 1.",
    )
    truncate: int | None = Field(None, ge=3, description="Maximum list length in training; full lists are stored.")
    dtype: Literal["float32", "float16"] = Field("float32", description="Data type of stored features.")


class ListRows:
    """Collects rows of documents: query, label, features and the split given by the source.

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
        """Add rows after their features; queries have weights in all blocks or in none."""
        self._query.append(query)
        self._label.append(np.asarray(label, np.float32))
        self._split.append(np.asarray(split, np.uint8))
        if weight is not None:
            self._weight.append(np.asarray(weight, np.float32))

    def content(self, options: ListOptions, job: Job, described: Mapping[str, Any] | None = None) -> Content:
        """Group, split and transform the rows; ``described`` is added to the features in ``dataset.json``."""
        if not self.features.num_features:
            raise DataError("no row has a feature", "expected at least one feature")
        column, whole = IdColumn(), all(block.dtype.is_integer() for block in self._query)
        for block in self._query:  # ids that are whole numbers in some blocks only become strings
            column.add(block if whole else block.cast(pl.String))
        query, ids = column.finish()
        codes = split_queries(query, np.concatenate(self._split), ids, options)
        splits = _group(self.features, query, codes)
        label = np.concatenate(self._label)
        if not (label[splits[TRAIN].rows] > 0).any():
            raise DataError("no training label is above 0", "check the labels")
        weight = query_weights(query, np.concatenate(self._weight), ids) if self._weight else None
        job.count("missing values replaced", self.features.num_missing)
        job.report("measuring features", 0, None)
        flags = self.features.num_features if options.missing_flags else 0
        how = options.model_dump(include={"standardise", "log_features", "missing"})
        within = options.within_query
        quantiles = Quantiles.fit(splits[TRAIN].sample()) if options.quantiles else None
        relative = RelativeFeatures(within, quantiles)
        chunks, columns = splits[TRAIN].chunks(relative, _MEASURED_ROWS), self.features.num_features * FACTORS[within]
        transform = FeatureTransform.fit(chunks, columns, **how, flags=flags)
        if options.shrink:
            train = np.flatnonzero(codes == TRAIN)
            heard = np.ones(train.shape[0], bool) if weight is None else weight[train] > 0
            transform = transform.scaled(_signal(splits[TRAIN], relative, transform, label, heard))
        dtype, width = np.dtype(options.dtype), transform.num_features
        self.features.check_space(self.features.num_rows, width, dtype.itemsize)
        arrays: dict[str, Arrays] = {}
        query_ids: dict[str, Ids] = {}
        for code, lists in splits.items():
            queries, rows = np.flatnonzero(codes == code), lists.rows
            pieces = map(partial(transform.apply, dtype=dtype), lists.chunks(relative))
            features = Pieces((rows.shape[0], width), dtype, pieces)
            arrays[SPLITS[code]] = {"offsets": lists.offsets, "label": label[rows], "features": features}
            if weight is not None:
                arrays[SPLITS[code]]["weight"] = weight[queries]
            query_ids[SPLITS[code]] = ids.keep(queries)
        compared = {"within_query": within} if within != "none" else {}
        extra = {
            "features": {"count": width, "dtype": dtype.name, **compared, **(described or {})},
            "transform": transform.to_json() | ({} if quantiles is None else {"quantiles": quantiles.to_json()}),
            "training": {"list_size": options.truncate},
        }
        return Content("search", arrays, query_ids, None, extra)


def _group(store: FeatureStore, query: Array, codes: Array) -> dict[int, ListFeatures]:
    """Rows of each split, by query, in input order within a query."""
    order = np.argsort(query, kind="stable")
    code, lengths = codes[query[order]], np.bincount(query, minlength=codes.shape[0])
    found = np.unique(codes).tolist()
    return {at: ListFeatures(store, order[code == at], numpy_offsets(lengths[codes == at])) for at in found}


def _signal(
    lists: ListFeatures, relative: RelativeFeatures, transform: FeatureTransform, label: Array, heard: Array
) -> Array:
    """The scale of each transformed column by its correlation with the label, over queries that are ``heard``."""
    signal = ColumnSignal(transform.num_features)
    for first, last, rows in lists.lists(relative):
        lengths = np.diff(lists.offsets[first : last + 1])
        labels = label[lists.rows[lists.offsets[first] : lists.offsets[last]]]
        kept = np.repeat(heard[first:last], lengths)
        if kept.any():
            signal.add(transform.apply(rows)[kept], labels[kept], lengths[heard[first:last]])
    return signal.scales()


def query_weights(query: Array, weight: Array, ids: Ids) -> Array:
    """The weight of each query, which must be equal in all its rows.

    >>> query_weights(np.array([0, 1, 0]), np.array([2.0, 1.0, 2.0]), Ids.of(["a", "b"])).tolist()
    [2.0, 1.0]
    """
    found = np.zeros(len(ids), np.float32)
    found[query] = weight
    odd = np.flatnonzero(found[query] != weight)
    if odd.shape[0]:
        at = int(odd[0])
        what = f"query {shown(ids[query[at]])} has rows with weights {weight[at]:g} and {found[query[at]]:g}"
        raise DataError(what, "expected the same weight in all rows of a query")
    return found
