"""Rows of text files as word and label codes, collected on disk, and the label catalogue."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from songrank.core.columns import Array
from songrank.core.errors import DataError, shown
from songrank.core.ids import Ids
from songrank.data.parsers.json_texts import JsonLine, json_lines
from songrank.data.preparation.labelled_queries import MAX_LABELS
from songrank.data.preparation.row_writer import RowWriter
from songrank.data.preparation.vocabulary import Codes
from songrank.io.source import Job, Source

_NUMBER = re.compile("0|[1-9][0-9]{0,8}")
_Labels = tuple[int, Sequence[str | int], Sequence[float] | None]  # of a text: line, labels and relevance


class TextRows:
    """All texts of all files, in reading order."""

    def __init__(self, scratch: Path, words_of: Callable[[str], list[str]]) -> None:
        self.words: Codes[str] = Codes()
        self.label_names = LabelNames()
        self.texts = RowWriter(scratch, "texts", {"word": np.int32})
        self.labels = RowWriter(scratch, "labels", {"code": np.int32, "label": np.float32})
        self._words_of = words_of
        self._ids: list[str | int | None] = []
        self._lines_of_ids: dict[str | int, tuple[str, int]] = {}

    def ids(self) -> Array | list[str] | None:
        """Ids of all rows, if any."""
        if not self._ids or self._ids[0] is None:
            return None
        if isinstance(self._ids[0], int):
            return np.array(self._ids, np.int64)
        return [str(name) for name in self._ids]

    def read_json(self, source: Source, job: Job, *, own_ids: bool) -> int:
        """Add the objects of a JSON Lines file and return their number; ``own_ids`` allows equal ids in other files."""
        if own_ids:
            self._lines_of_ids.clear()
        before = self.texts.rows
        for lines in json_lines(source, job):
            examples = [line.example() for line in lines]
            for line, example in zip(lines, examples, strict=True):
                self._add_id(example.id, line)
            self.add_texts(example.text for example in examples)
            pairs = zip(lines, examples, strict=True)
            self._add_labels([(line.line, example.labels, example.relevance) for line, example in pairs], source)
        return self.texts.rows - before

    def read_lines(self, texts: Source, labels: Source, job: Job) -> int:
        """Add one text per line, with space-separated labels from the other file; return the number of texts."""
        before = self.texts.rows
        for block in texts.blocks(job):
            self.add_texts(text for _, text in block.texts())
        rows, before = self.texts.rows - before, self.labels.rows
        for block in labels.blocks(job):
            self._add_labels([(line, text.split(), None) for line, text in block.texts()], labels)
        if (found := self.labels.rows - before) != rows:
            what = f"has {found:,} lines, but {texts.file_name} has {rows:,}"
            raise DataError(what, "expected one line of labels per text, empty for no labels", file=labels.name)
        return rows

    def add_texts(self, texts: Iterable[str]) -> None:
        """Add the words of texts."""
        lengths: list[int] = []
        codes: list[int] = []
        for text in texts:
            words = self._words_of(text)
            lengths.append(len(words))
            codes.extend(map(self.words.__getitem__, words))
        self.texts.append(lengths, word=codes)

    def _add_labels(self, rows: Sequence[_Labels], source: Source) -> None:
        code = self.label_names.code
        codes = [code(label, source.name, line) for line, labels, _ in rows for label in labels]
        relevance = [y for _, labels, known in rows for y in ([1.0] * len(labels) if known is None else known)]
        self.labels.append([len(labels) for _, labels, _ in rows], code=codes, label=relevance)

    def _add_id(self, name: str | int | None, line: JsonLine) -> None:
        if self._ids and type(name) is not type(self._ids[0]):
            what = f"its id is {shown(name)}, but that of the first row is {shown(self._ids[0])}"
            line.fail(what, "expected ids in all rows or in none, all whole numbers or all strings")
        self._ids.append(name)
        if name is None:
            return
        here = (line.file, line.line)
        if (there := self._lines_of_ids.setdefault(name, here)) is not here:
            line.fail(f"id {shown(name)} is repeated from line {there[1]:,} of {there[0]}", "expected each id once")


class LabelNames:
    """Assigns a code to each label at its first occurrence, stores that position, and numbers all labels at the end."""

    def __init__(self) -> None:
        self._codes: dict[str | int, int] = {}
        self._where: list[tuple[str, int]] = []

    def code(self, label: str | int, file: str, line: int) -> int:
        """The code of a label in this line."""
        code = self._codes.setdefault(label, len(self._codes))
        if code == len(self._where):
            self._where.append((file, line))
        return code

    def finish(self, catalogue: Sequence[str] | None, *, numbers_are_texts: bool = False) -> tuple[Ids, Array]:
        """The ids of the catalogue, and the number of each code in it.

        ``catalogue`` has the names of all labels in the order of their numbers. By default, whole numbers give a
        catalogue up to the maximum, names a catalogue of those that occur. ``numbers_are_texts`` reads strings that are
        all whole numbers as numbers, for formats with strings only.
        """
        labels = list(self._codes)
        numbers = self._as_numbers(labels, numbers_are_texts)
        if catalogue is None:
            if numbers is not None:
                return Ids.count(max(numbers, default=-1) + 1), np.array(numbers, np.int32)
            catalogue = [str(label) for label in labels]
        if numbers is None:
            known = {name: number for number, name in enumerate(catalogue)}
            numbers = [known.get(str(label), -1) for label in labels]
        for code, number in enumerate(numbers):
            if not 0 <= number < len(catalogue):
                what = f"label {shown(labels[code])} is not one of the {len(catalogue):,} in the list of labels"
                self._fail(code, what, "complete the list, or remove it")
        ids = Ids.of(catalogue)
        return ids, ids.find(catalogue).numpy().astype(np.int32)[np.array(numbers, np.int64)]

    def _as_numbers(self, labels: Sequence[str | int], numbers_are_texts: bool) -> list[int] | None:
        """All labels as whole numbers, or None if they are names; raises for a mixture."""
        if numbers_are_texts:
            return [int(label) for label in labels] if all(map(_is_number, labels)) else None
        texts = [isinstance(label, str) for label in labels]
        if any(texts):
            if not all(texts):
                odd = texts.index(not texts[0])
                what = f"label is {shown(labels[odd])}, but an earlier one is {shown(labels[0])}"
                self._fail(odd, what, "expected whole numbers or strings, not both")
            return None
        for code, label in enumerate(labels):
            if not _is_number(label):
                fix = f"expected a number from 0 to {MAX_LABELS - 1:,}; use strings for ids"
                self._fail(code, f"label is {shown(label)}", fix)
        return [int(label) for label in labels]

    def _fail(self, code: int, what: str, fix: str) -> NoReturn:
        file, line = self._where[code]
        raise DataError(what, fix, file=file, line=line)


def _is_number(label: str | int) -> bool:
    """Whether a label is a valid number, in canonical form."""
    if isinstance(label, int):
        return 0 <= label < MAX_LABELS
    return _NUMBER.fullmatch(label) is not None and int(label) < MAX_LABELS
