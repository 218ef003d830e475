"""Scores for new documents: features as they come, treated as those of training were, whole lists at a time."""

from typing import Any

import numpy as np
import torch

from songrank.core.columns import Array
from songrank.core.csr import length_groups
from songrank.core.errors import DataError
from songrank.data.preparation.feature_transform import FeatureTransform
from songrank.data.preparation.within_query import compare_within
from songrank.models.model_folder import ModelFolder

_VALUES = 2**24  # features of padded lists that are held at once
_PAIRS = 2**24  # pairs of documents of a list that are compared at once, by models that do


def score_documents(folder: ModelFolder, features: Any, lengths: Any = None) -> Array:
    """A score for each document, float32 [documents].

    Args:
        folder: of a search task.
        features: [documents, F] as in the file that training came from, NaN where a value is missing; lists follow one
            another.
        lengths: how many documents each list has; None for one list.

    """
    folder.need("search")
    raw = np.asarray(features)
    how = folder.info["features"].get("within_query", "none")
    transform = _transform(folder)
    expected = num_raw_features(folder)
    if raw.ndim != 2 or raw.shape[1] != expected:
        raise DataError(f"features have shape {list(raw.shape)}", f"expected [documents, {expected}], as in training")
    try:
        raw = raw.astype(np.float32, copy=False)
    except (TypeError, ValueError):
        raise DataError(f"features are of type {raw.dtype}", "expected numbers, NaN where one is missing") from None
    lengths = np.asarray([raw.shape[0]] if lengths is None else lengths, np.int64)
    if lengths.ndim != 1 or (lengths < 1).any() or lengths.sum() != raw.shape[0]:
        what = f"lists have {int(lengths.sum()):,} documents in all, and there are {raw.shape[0]:,}"
        raise DataError(what, "expected one length a list, each at least 1, that sum to the documents")
    scores = np.empty(raw.shape[0], np.float32)
    ends, width = np.cumsum(lengths), transform.num_features

    def fits(lists: int, longest: int) -> bool:
        return lists * longest * width <= _VALUES and lists * longest**2 <= _PAIRS

    for first, last in length_groups(lengths.tolist(), fits):
        begin, end = int(ends[first] - lengths[first]), int(ends[last - 1])
        part = raw[begin:end]
        if how != "none":
            part = compare_within(part, lengths[first:last], how)
        scores[begin:end] = _score(folder, transform.apply(part), lengths[first:last])
    return scores


def num_raw_features(folder: ModelFolder) -> int:
    """How many features a document has in a file; the model may see each in two ways, and flags of missing ones."""
    within = folder.info["features"].get("within_query")
    return _transform(folder).num_given // (2 if within == "z-rank" else 1)


def _transform(folder: ModelFolder) -> FeatureTransform:
    """That of training; synthetic documents have none."""
    if "transform" in folder.info:
        return FeatureTransform.from_json(folder.info["transform"])
    return FeatureTransform.fit([], int(folder.info["features"]["count"]))


def _score(folder: ModelFolder, rows: Array, lengths: Array) -> Array:
    mask = torch.arange(int(lengths.max())) < torch.from_numpy(lengths).unsqueeze(1)
    padded = torch.zeros(*mask.shape, rows.shape[1])
    padded[mask] = torch.from_numpy(rows)
    with torch.no_grad():
        found: Array = folder.model(padded.to(folder.device), mask.to(folder.device)).float().cpu()[mask].numpy()
    return found
