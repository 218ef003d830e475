"""Texts and their labels as JSON lines, one object per line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from songrank.core.errors import DataError, shown
from songrank.io.source import Block, Job, Source, check_utf8

_LINES = "expected one JSON object per line; for texts and labels in separate files pass the directory"
_TEXT = "expected a string in 'text', or in 'title' and 'content'"
_LABELS = "expected a list of whole numbers or strings"


@dataclass(frozen=True)
class Example:
    """A text and its labels, with optional graded ``relevance``."""

    text: str
    labels: list[str | int]
    relevance: list[float] | None
    id: str | int | None


@dataclass(frozen=True)
class JsonLine:
    """A JSON object and its line."""

    values: dict[str, Any]
    file: str
    line: int

    def fail(self, what: str, fix: str) -> NoReturn:
        """Raise a ``DataError`` with this line."""
        raise DataError(what, fix, file=self.file, line=self.line)

    def example(self) -> Example:
        """The object as a text with labels."""
        labels = self._labels()
        return Example(self.text(), labels, self._relevance(len(labels)), self.id())

    def text(self) -> str:
        """The text, or title and content."""
        names = ("text",) if self.values.get("text") is not None else ("title", "content")
        parts = [self.values[name] for name in names if self.values.get(name) is not None]
        if not parts:
            self.fail(f"has no text; keys are {shown(sorted(self.values))}", _TEXT)
        for part in parts:
            if not isinstance(part, str):
                self.fail(f"text is {_seen(part)}", _TEXT)
        return "\n".join(parts)

    def _labels(self) -> list[str | int]:
        key = "labels" if "labels" in self.values else "target_ind"
        if key not in self.values:
            self.fail(f"has no labels; keys are {shown(sorted(self.values))}", "expected 'labels' or 'target_ind'")
        labels = self.values[key]
        if not isinstance(labels, list):
            self.fail(f"{key} is {_seen(labels)}", _LABELS)
        for label in labels:
            if type(label) not in (int, str) or label == "":
                self.fail(f"{key} contains {_seen(label)}", _LABELS)
            self._check_characters(label)
        return labels

    def _relevance(self, count: int) -> list[float] | None:
        values = self.values.get("target_rel")
        if values is None:
            return None
        if not isinstance(values, list):
            self.fail(f"target_rel is {_seen(values)}", "expected a list of numbers, one per label")
        if len(values) != count:
            self.fail(f"target_rel has {len(values):,} numbers for {count:,} labels", "expected one per label")
        for value in values:
            if type(value) not in (int, float) or not 0 <= value < 2.0**127:  # excludes NaN and values beyond float32
                self.fail(f"target_rel contains {_seen(value)}", "expected a finite number of at least 0")
        return [float(value) for value in values]

    def id(self) -> str | int | None:
        """The id of the object, if any."""
        found: str | int | None = self.values.get("uid", self.values.get("id"))
        if found is not None:
            if type(found) not in (int, str) or (isinstance(found, int) and not -(2**63) < found < 2**63):
                self.fail(f"id is {_seen(found)}", "expected a string or a 64-bit integer")
            self._check_characters(found)
        return found

    def name(self) -> str:
        """The label name of an entry in a list of labels."""
        found = self.values.get("title") if self.id() is None else self.id()
        if not isinstance(found, (str, int)):
            self.fail(f"has no name; keys are {shown(sorted(self.values))}", "expected 'uid', 'id' or 'title'")
        self._check_characters(found)
        return str(found)

    def _check_characters(self, name: str | int) -> None:
        """Raise for unpaired surrogates."""
        try:
            str(name).encode("utf-8")
        except UnicodeEncodeError:
            self.fail(f"{shown(name)} is not valid Unicode", "expected names in UTF-8")


def _seen(value: object) -> str:
    """Format a value for messages."""
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else shown(value)


def json_lines(source: Source, job: Job) -> Iterator[list[JsonLine]]:
    """The objects of each block; blank lines are skipped."""
    for block in source.blocks(job):
        check_utf8(block)
        yield [_read(text, block, line) for line, text in block.lines() if text.strip()]


def _read(text: bytes, block: Block, line: int) -> JsonLine:
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        block.fail(f"is not valid JSON ({error.msg} at character {error.pos + 1:,})", _LINES, line)
    except (ValueError, RecursionError) as error:  # thousands of digits or nested brackets
        block.fail(f"is JSON that cannot be parsed ({error})", _LINES, line)
    if not isinstance(values, dict):
        block.fail(f"line is {_seen(values)}", _LINES, line)
    return JsonLine(values, block.file, line)
