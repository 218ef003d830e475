"""Raw texts with labels, tokenised with a vocabulary of the training texts."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator

from songrank.core.columns import Array
from songrank.core.csr import CSR
from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.content import Arrays, Content
from songrank.data.preparation import labelled_queries, tf_idf, vocabulary
from songrank.data.preparation.labelled_queries import Role, Split
from songrank.data.preparation.row_writer import csr_arrays
from songrank.data.preparation.text_rows import TextRows
from songrank.data.preparation.tf_idf import TfIdf, terms_of
from songrank.data.preparation.vocabulary import FIRST_WORD, PADDING, UNKNOWN
from songrank.data.preparation_options import QuerySplitOptions
from songrank.data.readers.label_table import LabelledRows
from songrank.data.readers.text_files import TextFiles, find_text_files, read_catalogue
from songrank.io.source import Job

VOCABULARY_FILE = "vocabulary.txt"
_MOST_TOKENS = 500


_Read = tuple[Callable[[Array], Arrays], list[str], dict[str, Any]]  # arrays of rows, vocabulary, dataset.json


class TextOptions(QuerySplitOptions):
    """Options of texts: tokenisation and splits."""

    features: Literal["tokens", "tf-idf"] = Field(
        "tokens", description="Model input: the words in order, or tf-idf weights of words, for models of features."
    )
    ngrams: int = Field(1, ge=1, le=9, description="tf-idf: maximum number of consecutive words per term.")
    max_tokens: int | None = Field(
        None, ge=1, description="Maximum number of words per text; none: 500 for tokens, all for tf-idf."
    )
    vocabulary_size: int = Field(50_000, ge=1, description="Maximum number of words, by frequency in training texts.")
    min_count: int = Field(
        1, ge=1, description="Minimum number of occurrences of a word in training texts; tf-idf: of texts with it."
    )
    lowercase: bool = Field(True, description="Convert texts to lower case.")
    encoding: str = Field("utf-8", description="Encoding of the files.")

    @property
    def most_words(self) -> int | None:
        """The maximum number of words per text; None for all."""
        return _MOST_TOKENS if self.max_tokens is None and self.features == "tokens" else self.max_tokens

    @model_validator(mode="after")
    def _ngrams_of_tf_idf(self) -> Self:
        if self.ngrams > 1 and self.features == "tokens":
            raise ValueError("features tf-idf with ngrams")
        return self


def xmc_text(source: Path | LabelledRows, options: TextOptions, job: Job, scratch: Path) -> Content:
    """Read texts and their labels, from JSON lines, from one file of texts and one of labels, or from memory.

    * JSON lines (``trn.json``, ``tst.json``, ``*.jsonl``): the text in ``text``, or in ``title`` and ``content``; a
      list of labels in ``labels`` or ``target_ind``, optionally with graded relevance in ``target_rel``; an optional id
      in ``uid`` or ``id``.
    * ``train_texts.txt`` or ``train_raw_texts.txt``, one text per line, and ``train_labels.txt``, with the labels on
      the same line, separated by spaces; likewise for test, and optionally for validation.

    The catalogue is shared by all splits: labels that are names are collected from all files and sorted; integer labels
    range up to the largest one. A list of all labels (``labels.txt``, ``label_names.txt``, ``label_map.txt``,
    ``lbl.json``) names them and includes labels that never occur.

    The vocabulary and the width of ``tokens`` are learned from training texts only. Token 0 is padding, 1 an unknown
    word; words start at 2, by descending frequency. They are saved in ``vocabulary.txt``, one per line. Query ids are
    those of the source, or row numbers in the file.

    With ``features=tf-idf`` a text becomes a sparse row of term weights (``TfIdf``), and ``vocabulary.txt`` has the
    number of training texts with each term after a tab.
    """
    words_of = partial(terms_of, ngrams=options.ngrams, lowercase=options.lowercase, most=options.most_words)
    rows = TextRows(scratch, words_of)
    if isinstance(source, LabelledRows):
        rows.add_texts(source.texts)
        counts: dict[Role, int] = {"all": rows.texts.rows}
        item_ids, labels = source.item_ids, source.labels
    elif isinstance(source, Path):
        files = find_text_files(source, options, options.encoding)
        counts = _read(files, rows, options, job)
        item_ids, labels = _labels(files, rows, job)
    else:
        raise DataError(f"source is a {type(source).__name__}", "expected a file, a directory or an archive")
    texts = rows.texts.finish()
    splits = labelled_queries.split_rows(counts, options)
    read = _tokens if options.features == "tokens" else _tf_idf
    describe, lines, extra = read(rows, texts, splits["train"], options)
    digest = vocabulary.write_words(scratch.parent / VOCABULARY_FILE, lines)
    extra["vocabulary"] |= {"file": VOCABULARY_FILE, "sha256": digest, "lowercase": options.lowercase}
    return labelled_queries.labelling_content(
        splits,
        labelled_queries.label_table(labels, job),
        describe,
        item_ids=item_ids,
        ids=rows.ids(),
        extra=extra,
    )


def _read(files: TextFiles, rows: TextRows, options: TextOptions, job: Job) -> dict[Role, int]:
    """Read all files; return the number of rows of each."""
    own_ids = labelled_queries.is_given(options, files.texts)
    return {
        role: rows.read_lines(source, files.labels[role], job)
        if role in files.labels
        else rows.read_json(source, job, own_ids=own_ids)
        for role, source in files.texts.items()
    }


def _labels(files: TextFiles, rows: TextRows, job: Job) -> tuple[Ids, CSR]:
    """The catalogue, and the labels of each row as indices."""
    catalogue = None if files.catalogue is None else read_catalogue(files.catalogue, job)
    item_ids, number = rows.label_names.finish(catalogue, numbers_are_texts=bool(files.labels))
    codes = rows.labels.finish()
    return item_ids, CSR(codes.offsets, {"item": torch.from_numpy(number)[codes["code"]], "label": codes["label"]})


def _tokens(rows: TextRows, texts: CSR, train: Split, options: TextOptions) -> _Read:
    counts = vocabulary.count_words(texts, train.rows, len(rows.words))
    words, numbers = _vocabulary(rows, counts, options)
    width = max(1, int(texts.lengths[torch.from_numpy(train.rows)].max()))
    tokens = np.where(numbers < 0, UNKNOWN, numbers + FIRST_WORD).astype(np.int32)
    described = {"size": FIRST_WORD + len(words), "padding": PADDING, "unknown": UNKNOWN}
    return lambda chosen: vocabulary.token_arrays(texts, chosen, tokens, width), words, {"vocabulary": described}


def _tf_idf(rows: TextRows, texts: CSR, train: Split, options: TextOptions) -> _Read:
    counts = tf_idf.count_documents(texts, train.rows, len(rows.words))
    words, numbers = _vocabulary(rows, counts, options)
    documents = {word: int(counts[rows.words[word]]) for word in words}
    told = {"texts": len(train.rows), "ngrams": options.ngrams, "max_tokens": options.max_tokens}
    fitted = TfIdf.described(documents, {**told, "lowercase": options.lowercase})
    described = {"size": len(words), "weights": "tf-idf", **told}
    features = {"count": len(words), "kind": "sparse", "scale": "none"}
    return (
        lambda chosen: csr_arrays(tf_idf.feature_rows(texts, chosen, numbers, fitted), "features."),
        [f"{term}\t{count}" for term, count in documents.items()],
        {"features": features, "vocabulary": described},
    )


def _vocabulary(rows: TextRows, counts: Array, options: TextOptions) -> tuple[list[str], Array]:
    """The most frequent words, and the number of each word of all texts among them, −1 if it is not one of them."""
    words = vocabulary.choose_words(rows.words, counts, size=options.vocabulary_size, min_count=options.min_count)
    if not words:
        what, fix = "training texts have no words", "expected letters or digits; check the texts and their encoding"
        if counts.any():
            what = f"no word occurs {options.min_count:,} times in the training texts"
            fix = f"expected a min_count of at most {counts.max():,}"
        raise DataError(what, fix)
    numbers = np.full(len(rows.words), -1, np.int64)
    numbers[[rows.words[word] for word in words]] = np.arange(len(words))
    return words, numbers
