"""Scores of new documents, with the feature transformation of training."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.core.errors import DataError
from songrank.core.processes import ALONE, Processes
from songrank.data.preparation.feature_transform import FeatureTransform
from songrank.data.preparation.quantiles import Quantiles
from songrank.data.preparation.within_query import FACTORS, RelativeFeatures
from songrank.models.document_lists import list_groups, score_lists
from songrank.models.model_folder import ModelFolder


def score_documents(folder: ModelFolder, features: Any, lengths: Any = None, *, alone: bool = False) -> Array:
    """Score documents; returns float32 [documents].

    Args:
        folder: model folder of a search task.
        features: [documents, F] as in the training file, NaN for missing values; lists are consecutive.
        lengths: number of documents per list; None for a single list.
        alone: compare each document with the training documents instead of its list, if :func:`scores_alone`.
    """
    folder.need("search")
    raw = np.asarray(features)
    relative = relative_features(folder)
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
        rows = torch.from_numpy(
            transform.apply(relative.of_documents(part) if alone else relative.of_lists(part, sizes))
        )
        scores[begin:end] = score_lists(folder.model, rows, torch.from_numpy(sizes), folder.device).numpy()
    return scores


def score_in_parts(
    folder: ModelFolder,
    lengths: Array,
    dense: Callable[[int, int], Array],
    most: int,
    report: Callable[[int], None] = lambda done: None,
    *,
    alone: bool = False,
    processes: Processes = ALONE,
) -> Array:
    """:func:`score_documents` in batches of whole lists, about ``most`` documents, read by ``dense(first, last)``.

    ``report`` is called with the number of scored documents. Several processes share the batches, and all have all
    scores.
    """
    starts, batches = numpy_offsets(lengths), [0]
    while (at := batches[-1]) < lengths.shape[0]:
        batches.append(max(at + 1, int(np.searchsorted(starts, starts[at] + most, side="right")) - 1))
    scores = torch.zeros(int(starts[-1]))
    with processes.agreed():
        for at, to in processes.share(list(pairwise(batches))):
            first, last = int(starts[at]), int(starts[to])
            found = score_documents(folder, dense(first, last), lengths[at:to], alone=alone)
            scores[first:last] = torch.from_numpy(found)
            report(last)
    return np.asarray(processes.add(scores.to(processes.device)).cpu().numpy())


def rank_documents(scores: Array, number: Array) -> tuple[Array, Array]:
    """The rank of each document in its list, from 1, and the documents by list and rank.

    ``number`` is the list of each document. Equal scores keep the order of documents.

    >>> rank, order = rank_documents(np.array([0.5, 0.1, 0.7]), np.array([1, 0, 1]))
    >>> rank.tolist(), order.tolist()
    ([2, 1, 1], [1, 2, 0])
    """
    lengths, order = np.bincount(number), np.lexsort((-scores, number))
    rank = np.empty(scores.shape[0], np.int64)
    rank[order] = np.arange(scores.shape[0]) - np.repeat(numpy_offsets(lengths)[:-1], lengths) + 1
    return rank, order


def num_raw_features(folder: ModelFolder) -> int:
    """The number of features in a file, before ``within_query`` features and missing flags are added."""
    return feature_transform(folder).num_given // FACTORS[folder.info["features"].get("within_query", "none")]


def relative_features(folder: ModelFolder) -> RelativeFeatures:
    """How the columns of a document follow from its features and its list."""
    content = folder.info.get("transform", {}).get("quantiles")
    quantiles = None if content is None else Quantiles.from_json(content)
    if quantiles is not None and quantiles.num_features != num_raw_features(folder):
        raise DataError("quantiles are not those of the features", "prepare the data set again")
    return RelativeFeatures(folder.info["features"].get("within_query", "none"), quantiles)


def scores_alone(folder: ModelFolder) -> bool:
    """Whether a document has a score without its list: in comparison with the training documents, or by itself."""
    relative = relative_features(folder)
    return folder.model.capabilities.pointwise and (relative.how == "none" or relative.quantiles is not None)


def feature_transform(folder: ModelFolder) -> FeatureTransform:
    """The feature transformation of training; synthetic data has none."""
    if "transform" in folder.info:
        return FeatureTransform.from_json(folder.info["transform"])
    return FeatureTransform.fit([], int(folder.info["features"]["count"]))
