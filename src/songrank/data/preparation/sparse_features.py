"""Sparse features of texts as they are written: as they are, or scaled row by row, which no other row can leak into."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from songrank.core.columns import Array
from songrank.core.csr import CSR
from songrank.core.ids import Ids
from songrank.data.content import Content
from songrank.data.preparation.labelled_queries import Role, label_table, labelling_content, split_rows
from songrank.data.preparation.row_writer import RowWriter, stored_rows
from songrank.data.preparation_options import QuerySplitOptions
from songrank.io.source import Job

Scale = Literal["none", "l2", "log-l2"]


class FeatureRowOptions(QuerySplitOptions):
    """How rows are divided, and how their features are scaled."""

    scale: Scale = Field(
        "none", description="of a row: as it is, of length 1, or of length 1 after the logarithm of 1 + each value"
    )


class FeatureWriter(RowWriter):
    """Appends rows of sparse features, scaled."""

    def __init__(self, folder: Path, scale: Scale) -> None:
        super().__init__(folder, "features", {"index": np.int32, "value": np.float32})
        self.scale = scale

    def append(self, lengths: Any, **columns: Any) -> None:
        """Add rows of these lengths."""
        value = scale_rows(np.asarray(lengths, np.int64), np.asarray(columns["value"], np.float32), self.scale)
        super().append(lengths, index=columns["index"], value=value)


def feature_content(
    rows: Mapping[Role, int],
    labels: CSR,
    features: FeatureWriter,
    item_ids: Ids,
    num_features: int,
    options: FeatureRowOptions,
    job: Job,
    names: Sequence[str] | None = None,
) -> Content:
    """A labelling task on rows of features; ``rows`` says how many each file has."""
    table = features.finish()
    described = {"count": num_features, "kind": "sparse", "scale": options.scale}
    return labelling_content(
        split_rows(rows, options),
        label_table(labels, job),
        lambda chosen: stored_rows(table, chosen, "features"),
        item_ids=item_ids,
        extra={"features": described | ({} if names is None else {"names": list(names)})},
    )


def scale_rows(lengths: Array, value: Array, scale: Scale) -> Array:
    """Values of rows that follow one another, each row scaled; a row of zeros stays one.

    >>> scale_rows(np.array([2, 1]), np.array([3.0, 4.0, 5.0]), "l2")
    array([0.6, 0.8, 1. ], dtype=float32)
    >>> scale_rows(np.array([2]), np.array([1.0, -1.0]), "log-l2")
    array([ 0.70710677, -0.70710677], dtype=float32)
    """
    if scale == "none":
        return value
    value = value.astype(np.float64)
    if scale == "log-l2":
        value = np.sign(value) * np.log1p(np.abs(value))
    row = np.repeat(np.arange(lengths.shape[0]), lengths)
    norm = np.sqrt(np.bincount(row, value * value, minlength=lengths.shape[0]))
    scaled: Array = value / np.where(norm > 0, norm, 1.0)[row]
    return scaled.astype(np.float32)
