"""From texts to word ids: tokenisation, and a vocabulary of the most frequent words."""

import re
import sys
import unicodedata
from collections.abc import Hashable, Iterable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from songrank.core.columns import Array
from songrank.core.csr import CSR
from songrank.data.content import Arrays
from songrank.io.arrays import Pieces
from songrank.io.files import sha256, write_whole

PADDING, UNKNOWN, FIRST_WORD = 0, 1, 2
_PIECE_TOKENS = 1 << 22
_Key = TypeVar("_Key", bound=Hashable)


def tokenise(text: str, *, lowercase: bool = True, most: int | None = None) -> list[str]:
    """Split a text into words: maximal runs of letters, digits and combining marks that do not start with a mark.

    These are the Unicode categories L, N and M; all other characters separate words. Text is composed first (NFC), so
    that a letter with an accent is one character; marks without a composed form, for example Hindi vowel signs, stay in
    their word. Lower case follows Unicode, except that İ becomes i. ``most`` is the maximum number of words, None for
    all.

    >>> tokenise("Directive 2004/18/EC: café_au lait!")
    ['directive', '2004', '18', 'ec', 'café', 'au', 'lait']
    >>> tokenise("हिन्दी İstanbul", most=2)
    ['हिन्दी', 'istanbul']
    """
    text = unicodedata.normalize("NFC", text)
    if lowercase:
        text = text.replace("İ", "i").lower()
    return [match[0] for match in islice(_word().finditer(text), most)]


@cache
def _word() -> re.Pattern[str]:
    marks = "".join(char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(char)[0] == "M")
    # \w is L, N and the underscore; the lookahead avoids the search among marks for most characters
    return re.compile(rf"[^\W_]+(?:(?=[^\x00-\u02ff])[{marks}]+[^\W_]*)*")


class Codes(dict[_Key, int]):
    """Numbers from 0, assigned to keys in order of first access.

    >>> codes = Codes()
    >>> codes["b"], codes["a"], codes["b"]
    (0, 1, 0)
    """

    def __missing__(self, key: _Key) -> int:
        self[key] = code = len(self)
        return code


def choose_words(words: Iterable[str], counts: Array, *, size: int, min_count: int) -> list[str]:
    """The ``size`` most frequent words; equal counts are in alphabetical order.

    >>> choose_words(["b", "a", "c", "d"], np.array([2, 2, 1, 3]), size=3, min_count=1)
    ['d', 'a', 'b']
    """
    counted = [(-count, word) for word, count in zip(words, counts.tolist(), strict=True) if count >= min_count]
    return [word for _, word in sorted(counted)[:size]]


def write_words(path: Path, words: Iterable[str]) -> str:
    """Write a vocabulary, and return its SHA-256: line n, from 1, is the word with id n + 1."""
    text = "".join(f"{word}\n" for word in words)
    write_whole(path, text)
    return sha256(text)


def count_words(texts: CSR, rows: Array, distinct: int) -> Array:
    """Count each word code in these rows."""
    counts = np.zeros(distinct, np.int64)
    for piece in texts.pieces(rows):
        counts += np.bincount(piece["word"], minlength=distinct)
    return counts


def token_arrays(texts: CSR, rows: Array, numbers: Array, width: int) -> Arrays:
    """These texts as ``tokens`` [rows, width], padded at the end, and ``lengths``."""

    def padded(piece: CSR) -> Array:
        word = piece.span(piece.offsets[:-1], piece.lengths.clamp(max=width), width, "word").numpy()
        return np.where(word < 0, PADDING, numbers[word])

    pieces = (padded(piece) for piece in texts.pieces(rows, most_rows=max(1, _PIECE_TOKENS // width)))
    lengths = np.minimum(texts.lengths[torch.from_numpy(rows)].numpy(), width).astype(np.int32)
    return {"tokens": Pieces((rows.shape[0], width), np.dtype(np.int32), pieces), "lengths": lengths}
