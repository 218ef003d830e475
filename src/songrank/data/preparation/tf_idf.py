"""Texts as sparse tf-idf features of words and n-grams."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch

from songrank.core.columns import Array
from songrank.core.csr import CSR
from songrank.core.errors import DataError
from songrank.data.preparation.row_writer import scale_rows
from songrank.data.preparation.vocabulary import tokenise


class Rows(NamedTuple):
    """Sparse rows: their lengths, and feature indices and values of all rows."""

    lengths: Array
    index: Array  # type: ignore[assignment]
    value: Array


def terms_of(text: str, *, ngrams: int, lowercase: bool = True, most: int | None = None) -> list[str]:
    """The words of a text, then its sequences of 2 to ``ngrams`` words; ``most`` is the maximum number of words.

    >>> terms_of("Tax on wine", ngrams=2)
    ['tax', 'on', 'wine', 'tax on', 'on wine']
    """
    words = tokenise(text, lowercase=lowercase, most=most)
    longer = ([" ".join(words[at : at + n]) for at in range(len(words) - n + 1)] for n in range(2, ngrams + 1))
    return [*words, *chain.from_iterable(longer)]


@dataclass(frozen=True)
class TfIdf:
    r"""Term weights fitted on training texts.

        x_t = ln(1 + tf_t) · (ln((1 + n) / (1 + df_t)) + 1),  divided by ‖x‖₂

    tf_t is the count of term t in the text, df_t the number of training texts with t, n the number of training texts.
    Other terms are ignored.

    Args:
        documents: df_t of each term, in order of features.
        texts: n.
        ngrams: maximum number of words per term.
        lowercase: whether texts are converted to lower case.
        most: maximum number of words per text; None for all.

    >>> fitted = TfIdf({"wine": 3, "tax": 1}, texts=3)
    >>> rows = fitted.transform(["wine wine tax", "the sea"])
    >>> rows.lengths.tolist(), rows.index.tolist(), [round(value, 3) for value in rows.value.tolist()]
    ([2, 0], [0, 1], [0.683, 0.73])
    """

    documents: Mapping[str, int]
    texts: int
    ngrams: int = 1
    lowercase: bool = True
    most: int | None = None

    @classmethod
    def described(cls, documents: Mapping[str, int], told: Mapping[str, Any]) -> "TfIdf":
        """From document frequencies and the section ``vocabulary`` of ``dataset.json`` or ``model.json``."""
        return cls(documents, *(told[key] for key in ("texts", "ngrams", "lowercase", "max_tokens")))

    @cached_property
    def idf(self) -> Array:
        """The inverse document frequency of each term."""
        found = np.fromiter(self.documents.values(), np.float64, len(self.documents))
        return np.log((1 + self.texts) / (1 + found)) + 1

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {term: number for number, term in enumerate(self.documents)}

    def transform(self, texts: Sequence[str]) -> Rows:
        """The features of texts."""
        lengths: list[int] = []
        numbers: list[int] = []
        for row, text in enumerate(texts):
            if not isinstance(text, str):
                raise DataError(f"text {row} (from 0) is of type {type(text).__name__}", "expected strings")
            terms = terms_of(text, ngrams=self.ngrams, lowercase=self.lowercase, most=self.most)
            known = [number for term in terms if (number := self._numbers.get(term)) is not None]
            lengths.append(len(known))
            numbers += known
        return self.weigh(np.array(lengths, np.int64), np.array(numbers, np.int64))

    def weigh(self, lengths: Array, numbers: Array) -> Rows:
        """The features of texts whose terms have these ``numbers``, with repetitions."""
        row, width = np.repeat(np.arange(lengths.shape[0]), lengths), max(1, len(self.documents))
        key, count = np.unique(row * width + numbers, return_counts=True)
        row, index = np.divmod(key, width)
        lengths = np.bincount(row, minlength=lengths.shape[0])
        return Rows(lengths, index.astype(np.int32), scale_rows(lengths, np.log1p(count) * self.idf[index], "l2"))


def count_documents(texts: CSR, rows: Array, distinct: int) -> Array:
    """The number of these rows that contain each term code."""
    counts = np.zeros(distinct, np.int64)
    for piece in texts.pieces(rows):
        key = np.unique(piece.row_of_entries().numpy() * distinct + piece["word"].numpy())
        counts += np.bincount(key % distinct, minlength=distinct)
    return counts


def feature_rows(texts: CSR, rows: Array, numbers: Array, fitted: TfIdf) -> CSR:
    """Features of these texts; ``numbers`` has the feature of each term code, −1 for none."""
    parts = []
    for piece in texts.pieces(rows):
        number = numbers[piece["word"].numpy()]
        row = piece.row_of_entries().numpy()[number >= 0]
        parts.append(fitted.weigh(np.bincount(row, minlength=len(piece)), number[number >= 0]))
    lengths, index, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    return CSR.from_lengths(torch.from_numpy(lengths), index=torch.from_numpy(index), value=torch.from_numpy(value))
