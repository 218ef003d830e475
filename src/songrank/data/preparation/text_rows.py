"""Rows of text files as codes of words and of labels, collected on disk."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from songrank.core.columns import Array
from songrank.core.errors import DataError, shown
from songrank.data.parsers.json_texts import JsonLine, json_lines
from songrank.data.preparation.label_names import LabelNames
from songrank.data.preparation.row_writer import RowWriter
from songrank.data.preparation.vocabulary import Codes
from songrank.io.source import Job, Source


class TextRows:
    """All texts of all files, in the order in which they are read."""

    def __init__(self, scratch: Path, words_of: Callable[[str], list[str]]) -> None:
        self.words: Codes[str] = Codes()
        self.label_names = LabelNames()
        self.texts = RowWriter(scratch, "texts", {"word": np.int32})
        self.labels = RowWriter(scratch, "labels", {"code": np.int32, "label": np.float32})
        self._words_of = words_of
        self._ids: list[str | int | None] = []
        self._lines_of_ids: dict[str | int, tuple[str, int]] = {}

    def ids(self) -> Array | list[str] | None:
        """Of all rows, where they have any."""
        if not self._ids or self._ids[0] is None:
            return None
        if isinstance(self._ids[0], int):
            return np.array(self._ids, np.int64)
        return [str(name) for name in self._ids]

    def read_json(self, source: Source, job: Job, *, own_ids: bool) -> int:
        """Add and count the objects of a file of JSON lines; with ``own_ids``, other files may have the same ids."""
        if own_ids:
            self._lines_of_ids.clear()
        before = self.texts.rows
        for lines in json_lines(source, job):
            examples = [line.example() for line in lines]
            for line, example in zip(lines, examples, strict=True):
                self._add_id(example.id, line)
            self.add_texts(example.text for example in examples)
            relevance = [[1.0] * len(e.labels) if e.relevance is None else e.relevance for e in examples]
            self._add_labels([example.labels for example in examples], [line.line for line in lines], source, relevance)
        return self.texts.rows - before

    def read_lines(self, texts: Source, labels: Source, job: Job) -> int:
        """Add one text a line, and from the other file its labels, separated by blanks; return how many there are."""
        before = self.texts.rows
        for block in texts.blocks(job):
            self.add_texts(text for _, text in block.texts())
        rows, before = self.texts.rows - before, self.labels.rows
        for block in labels.blocks(job):
            names = [text.split() for _, text in block.texts()]
            relevance = [[1.0] * len(row) for row in names]
            self._add_labels(names, range(block.line, block.line + len(names)), labels, relevance)
        if (found := self.labels.rows - before) != rows:
            what = f"has {found:,} lines, but {texts.file_name} has {rows:,}"
            raise DataError(what, "expected one line of labels a text, blank where it has none", file=labels.name)
        return rows

    def add_texts(self, texts: Iterable[str]) -> None:
        """Take in the words of texts."""
        lengths: list[int] = []
        codes: list[int] = []
        for text in texts:
            words = self._words_of(text)
            lengths.append(len(words))
            codes.extend(map(self.words.__getitem__, words))
        self.texts.append(lengths, word=codes)

    def _add_labels(
        self,
        rows: Sequence[Sequence[str | int]],
        lines: Sequence[int],
        source: Source,
        relevance: Sequence[Sequence[float]],
    ) -> None:
        file, code = source.name, self.label_names.code
        codes = [code(label, file, line) for line, labels in zip(lines, rows, strict=True) for label in labels]
        self.labels.append([len(labels) for labels in rows], code=codes, label=[y for row in relevance for y in row])

    def _add_id(self, name: str | int | None, line: JsonLine) -> None:
        if self._ids and type(name) is not type(self._ids[0]):
            what = f"its id is {shown(name)}, but that of the first row is {shown(self._ids[0])}"
            line.fail(what, "give every row an id, or none: all whole numbers, or all texts")
        self._ids.append(name)
        if name is None:
            return
        here = (line.file, line.line)
        if (there := self._lines_of_ids.setdefault(name, here)) is not here:
            line.fail(f"id {shown(name)} is in line {there[1]:,} of {there[0]} already", "expected each id once")
