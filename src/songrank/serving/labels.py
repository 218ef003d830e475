"""Labels for new texts: words or features as they come, treated as those of training were."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from songrank.core.columns import Array
from songrank.core.errors import DataError
from songrank.data.adapters.feature_matrix import dense_rows, num_rows
from songrank.data.preparation.row_writer import scale_rows
from songrank.data.preparation.vocabulary import PADDING, UNKNOWN, tokenise
from songrank.models.model_folder import ModelFolder
from songrank.serving.batches import texts_at_once
from songrank.serving.recommendations import check_k, top


@dataclass(frozen=True)
class Labels:
    """The k best labels of texts: numbers and scores [texts, k], best first."""

    item: Tensor
    score: Tensor


def read_queries(folder: ModelFolder, queries: Any) -> Tensor:
    """What the model reads of new texts: words [B, T] int64, or dense features [B, F]."""
    if folder.inputs == "words":
        return _words(folder, queries)
    return torch.from_numpy(_features(folder, queries))


def _words(folder: ModelFolder, texts: Sequence[str]) -> Tensor:
    assert folder.words is not None
    told, known = folder.info["vocabulary"], folder.words
    width = int(told["width"])
    tokens = np.full((len(texts), width), PADDING, np.int64)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"text {row} (from 0) is a {type(text).__name__}", "expected texts")
        words = tokenise(text, lowercase=bool(told["lowercase"]), most=width)
        tokens[row, : len(words)] = [known.get(word, UNKNOWN) for word in words]
    return torch.from_numpy(tokens)


def _features(folder: ModelFolder, rows: Any) -> Array:
    told = folder.info["features"]
    dense = dense_rows(rows)
    if dense.ndim != 2 or dense.shape[1] != told["count"]:
        raise DataError(
            f"features have shape {list(dense.shape)}", f"expected [texts, {told['count']}], as in training"
        )
    if not np.isfinite(dense).all():
        raise DataError("a feature is no finite number", "expected numbers: mend or leave out such rows")
    lengths = np.full(dense.shape[0], dense.shape[1])
    return scale_rows(lengths, dense.reshape(-1), told.get("scale", "none")).reshape(dense.shape)


def score_labels(folder: ModelFolder, queries: Any) -> Iterator[Tensor]:
    """Scores [B, labels] of all labels, a batch of texts at a time."""
    folder.need("labelling")
    step = texts_at_once(folder)
    for first in range(0, num_rows(queries), step):
        part = read_queries(folder, queries[first : first + step])
        with torch.no_grad():
            yield folder.model.score_all(part.to(folder.device)).float()  # type: ignore[operator]


def label(folder: ModelFolder, queries: Any, k: int = 5) -> Iterator[Labels]:
    """The k best labels of each text, a batch of texts at a time.

    Args:
        folder: of a labelling task.
        queries: texts, or features [texts, F], dense or a scipy sparse matrix, as in the file that training came from.
        k: how many labels a text, at most all of them; of equal scores the first in order of number.

    """
    k = check_k(k)
    return (
        Labels(item, value)
        for scores in score_labels(folder, queries)
        for value, item in [top(scores, min(k, scores.shape[1]))]
    )
