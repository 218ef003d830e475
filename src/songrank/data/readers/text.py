"""Raw texts with labels, tokenised with a vocabulary of the training texts."""

from functools import partial
from pathlib import Path

import numpy as np
import torch
from pydantic import Field

from songrank.core.columns import Array
from songrank.core.csr import CSR
from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.content import Content
from songrank.data.preparation import labelled_queries, vocabulary
from songrank.data.preparation.labelled_queries import Role, Split
from songrank.data.preparation.text_rows import TextRows
from songrank.data.preparation.vocabulary import FIRST_WORD, PADDING, UNKNOWN
from songrank.data.preparation_options import QuerySplitOptions
from songrank.data.readers.label_table import LabelledRows
from songrank.data.readers.text_files import TextFiles, find_text_files, read_catalogue
from songrank.io.source import Job

VOCABULARY_FILE = "vocabulary.txt"


class TextOptions(QuerySplitOptions):
    """Options of texts: tokenisation and splits."""

    max_tokens: int = Field(500, ge=1, description="Maximum number of words per text; longer texts are truncated.")
    vocabulary_size: int = Field(50_000, ge=1, description="Maximum number of words, by frequency in training texts.")
    min_count: int = Field(1, ge=1, description="Minimum number of occurrences of a word in training texts.")
    lowercase: bool = Field(True, description="Convert texts to lower case.")
    encoding: str = Field("utf-8", description="Encoding of the files.")


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
    """
    tokenise = partial(vocabulary.tokenise, lowercase=options.lowercase, most=options.max_tokens)
    rows = TextRows(scratch, tokenise)
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
    words, word_numbers = _vocabulary(rows, texts, splits["train"], options)
    vocabulary.write_words(scratch.parent / VOCABULARY_FILE, words)
    width = max(1, int(texts.lengths[torch.from_numpy(splits["train"].rows)].max()))
    described = {"size": FIRST_WORD + len(words), "padding": PADDING, "unknown": UNKNOWN}
    return labelled_queries.labelling_content(
        splits,
        labelled_queries.label_table(labels, job),
        lambda chosen: vocabulary.token_arrays(texts, chosen, word_numbers, width),
        item_ids=item_ids,
        ids=rows.ids(),
        extra={"vocabulary": {**described, "file": VOCABULARY_FILE, "lowercase": options.lowercase}},
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


def _vocabulary(rows: TextRows, texts: CSR, train: Split, options: TextOptions) -> tuple[list[str], Array]:
    """The vocabulary of the training texts, and the token of each word of all texts."""
    counts = vocabulary.count_words(texts, train.rows, len(rows.words))
    words = vocabulary.choose_words(rows.words, counts, size=options.vocabulary_size, min_count=options.min_count)
    if not words:
        what, fix = "training texts have no words", "expected letters or digits; check the texts and their encoding"
        if counts.any():
            what = f"no word occurs {options.min_count:,} times in the training texts"
            fix = f"expected a min_count of at most {counts.max():,}"
        raise DataError(what, fix)
    numbers = np.full(len(rows.words), UNKNOWN, np.int32)
    numbers[[rows.words[word] for word in words]] = np.arange(FIRST_WORD, FIRST_WORD + len(words))
    return words, numbers
