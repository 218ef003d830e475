"""Labels for new texts or features, preprocessed as in training."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank.core.errors import DataError
from songrank.data.adapters.feature_matrix import dense_rows, num_rows
from songrank.data.preparation.row_writer import scale_rows
from songrank.data.preparation.standardisation import Standardisation
from songrank.data.preparation.tf_idf import TfIdf
from songrank.data.preparation.vocabulary import PADDING, UNKNOWN, tokenise
from songrank.models.model_folder import ModelFolder
from songrank.serving.recommendations import check_count, top

_TEXT_VALUES = 2**24  # maximum number of scores, features or token vector entries per batch
_TOKEN_VALUES = 1024


class Labels(NamedTuple):
    """The k best labels per text: indices and scores [texts, k], best first."""

    item: Tensor
    score: Tensor


def texts_at_once(folder: ModelFolder) -> int:
    """Batch size in texts, for bounded memory."""
    sizes, width = folder.info["sizes"], folder.info.get("vocabulary", {}).get("width", 0)
    return int(max(1, _TEXT_VALUES // max(sizes["num_labels"], sizes.get("num_features", 0), width * _TOKEN_VALUES)))


def _tf_idf(fitted: TfIdf, device: torch.device, texts: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Sparse rows, as indices, offsets and values."""
    rows = fitted.transform(texts)
    parts = rows.index, numpy_offsets(rows.lengths), rows.value
    index, offsets, value = (torch.from_numpy(part).to(device) for part in parts)
    return index, offsets, value


def _words(folder: ModelFolder, texts: Sequence[str]) -> Array:
    assert folder.words is not None
    told, known = folder.info["vocabulary"], folder.words
    width = int(told["width"])
    tokens = np.full((len(texts), width), PADDING, np.int64)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"text {row} (from 0) is of type {type(text).__name__}", "expected strings")
        words = tokenise(text, lowercase=bool(told["lowercase"]), most=width)
        tokens[row, : len(words)] = [known.get(word, UNKNOWN) for word in words]
    return tokens


def _features(folder: ModelFolder, rows: Any) -> Array:
    told, dense = folder.info["features"], dense_rows(rows)
    if dense.ndim != 2 or dense.shape[1] != told["count"]:
        fix = f"expected [texts, {told['count']}], as in training"
        raise DataError(f"features have shape {list(dense.shape)}", fix)
    if not np.isfinite(dense).all():
        raise DataError("a feature is NaN or infinite", "correct or remove such rows")
    if told.get("scale") == "standardise":
        return Standardisation.described(told).apply(dense)
    lengths = np.full(dense.shape[0], dense.shape[1])
    return scale_rows(lengths, dense.reshape(-1), told.get("scale", "none")).reshape(dense.shape)


def score_labels(folder: ModelFolder, queries: Any) -> Iterator[Tensor]:
    """Scores [B, labels] of all labels, in batches of texts."""
    folder.need("labelling")
    step, read = texts_at_once(folder), _reader(folder)
    for first in range(0, num_rows(queries), step):
        part = read(queries[first : first + step])
        with torch.no_grad():
            yield folder.model.score_all(part).float()  # type: ignore[operator]


def _reader(folder: ModelFolder) -> Callable[[Any], Any]:
    """The function from texts or features to model input on the device."""
    if folder.documents is not None:
        return partial(_tf_idf, TfIdf.described(folder.documents, folder.info["vocabulary"]), folder.device)
    read = _words if folder.inputs == "words" else _features
    return lambda queries: torch.from_numpy(read(folder, queries)).to(folder.device)


def label(folder: ModelFolder, queries: Any, k: int = 5) -> Iterator[Labels]:
    """The k best labels per text, in batches of texts.

    Args:
        folder: model folder of a multi-label classification task.
        queries: texts, or features [texts, F], dense or a scipy sparse matrix, as in the training file.
        k: labels per text, at most all; ties are broken by label index.
    """
    k = check_count("k", k)
    return (
        Labels(item, value)
        for scores in score_labels(folder, queries)
        for value, item in [top(scores, min(k, scores.shape[1]))]
    )
