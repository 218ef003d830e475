"""Scores of new documents, with the feature transformation of training."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.core.errors import DataError
from songrank.data.preparation.feature_transform import FeatureTransform
from songrank.data.preparation.within_query import compare_within
from songrank.models.document_lists import list_groups, score_lists
from songrank.models.model_folder import ModelFolder


def score_documents(folder: ModelFolder, features: Any, lengths: Any = None) -> Array:
    """Score documents; returns float32 [documents].

    Args:
        folder: model folder of a search task.
        features: [documents, F] as in the training file, NaN for missing values; lists are consecutive.
        lengths: number of documents per list; None for a single list.
    """
    folder.need("search")
    raw = np.asarray(features)
    how = folder.info["features"].get("within_query", "none")
    transform, expected = feature_transform(folder), num_raw_features(folder)
    if raw.ndim != 2 or raw.shape[1] != expected:
        raise DataError(f"features have shape {list(raw.shape)}", f"expected [documents, {expected}], as in training")
    try:
        raw = raw.astype(np.float32, copy=False)
    except (TypeError, ValueError):
        raise DataError(f"features have dtype {raw.dtype}", "expected numbers, NaN for missing values") from None
    lengths = np.asarray([raw.shape[0]] if lengths is None else lengths, np.int64)
    if lengths.ndim != 1 or (lengths < 1).any() or lengths.sum() != raw.shape[0]:
        what = f"lengths sum to {int(lengths.sum()):,}, but there are {raw.shape[0]:,} documents"
        raise DataError(what, "expected one length of at least 1 per list, with this sum")
    scores, starts = np.empty(raw.shape[0], np.float32), numpy_offsets(lengths)
    for first, last in list_groups(lengths.tolist(), transform.num_features):
        begin, end = int(starts[first]), int(starts[last])
        part, sizes = raw[begin:end], lengths[first:last]
        rows = torch.from_numpy(transform.apply(part if how == "none" else compare_within(part, sizes, how)))
        scores[begin:end] = score_lists(folder.model, rows, torch.from_numpy(sizes), folder.device).numpy()
    return scores


def score_in_parts(
    folder: ModelFolder,
    lengths: Array,
    dense: Callable[[int, int], Array],
    most: int,
    report: Callable[[int], None] = lambda done: None,
) -> Array:
    """:func:`score_documents` in batches of whole lists, about ``most`` documents, read by ``dense(first, last)``.

    ``report`` is called with the number of scored documents.
    """
    starts, at = numpy_offsets(lengths), 0
    scores = np.empty(int(starts[-1]), np.float32)
    while at < lengths.shape[0]:
        to = max(at + 1, int(np.searchsorted(starts, starts[at] + most, side="right")) - 1)
        first, last = int(starts[at]), int(starts[to])
        scores[first:last] = score_documents(folder, dense(first, last), lengths[at:to])
        at = to
        report(last)
    return scores


def num_raw_features(folder: ModelFolder) -> int:
    """The number of features in a file, before ``within_query`` features and missing flags are added."""
    both = folder.info["features"].get("within_query") == "z-rank"
    return feature_transform(folder).num_given // (2 if both else 1)


def feature_transform(folder: ModelFolder) -> FeatureTransform:
    """The feature transformation of training; synthetic data has none."""
    if "transform" in folder.info:
        return FeatureTransform.from_json(folder.info["transform"])
    return FeatureTransform.fit([], int(folder.info["features"]["count"]))
