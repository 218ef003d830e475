"""The head of an ARFF file: its name and its attributes, up to ``@data``."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from songrank.core.errors import DataError, shown
from songrank.io.source import Block, Job, Source, check_utf8

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NAME = re.compile(rf"({_QUOTED}|[^\s{{]+)\s*(.*)")
_ENTRY = re.compile(rf"((?:[^,'\"]|{_QUOTED})*)(,|\Z)")
_NUMERIC = ("numeric", "real", "integer")
_SHOWN = 5
_ATTRIBUTE = "expected @attribute NAME, then numeric or values in braces"


@dataclass(frozen=True)
class Attribute:
    """A column: its name, and the values it can take; None if these are numbers."""

    name: str
    values: tuple[str, ...] | None


@dataclass(frozen=True)
class ArffHeader:
    """What stands before ``@data``."""

    relation: str
    attributes: tuple[Attribute, ...]


def read_header(source: Source, job: Job) -> tuple[ArffHeader, Iterator[Block]]:
    """The header of a file, and the blocks of rows after it."""
    blocks = source.blocks(job)
    reader = _HeaderReader(source.name)
    for block in blocks:
        check_utf8(block)
        lines = block.data.split(b"\n")
        for at, line in enumerate(lines[:-1]):
            reader.line = block.line + at
            if reader.read(line.decode("utf-8").strip()):
                rest = Block(b"\n".join(lines[at + 1 :]), reader.line + 1, block.file)
                return ArffHeader(reader.relation, tuple(reader.attributes)), _with_first(rest, blocks)
    fix = "expected an ARFF file: @relation, @attribute …, @data, rows"
    raise DataError("has no line @data", fix, file=source.name)


def _with_first(first: Block, others: Iterator[Block]) -> Iterator[Block]:
    if first.data:
        yield first
    for block in others:
        check_utf8(block)
        yield block


class _HeaderReader:
    def __init__(self, file: str) -> None:
        self.file, self.line, self.relation = file, 0, ""
        self.attributes: list[Attribute] = []

    def fail(self, what: str, fix: str) -> NoReturn:
        raise DataError(what, fix, file=self.file, line=self.line)

    def read(self, text: str) -> bool:
        """Take in a line; whether it was ``@data``."""
        if not text or text.startswith("%"):
            return False
        keyword, _, rest = text.replace("\t", " ").partition(" ")
        match keyword.lower():
            case "@relation":
                self.relation = rest.strip()
            case "@attribute":
                self.attributes.append(self.attribute(rest.strip()))
            case "@data":
                if not self.attributes:
                    self.fail("@data comes before any attribute", _ATTRIBUTE)
                return True
            case _:
                self.fail(f"is {shown(text)}", "expected @relation, @attribute or @data before the rows")
        return False

    def attribute(self, text: str) -> Attribute:
        match = _NAME.fullmatch(text)
        if match is None:
            self.fail(f"attribute is {shown(text)}", _ATTRIBUTE)
        name, kind = unquote(match[1]), match[2].strip()
        if kind.lower() in _NUMERIC:
            return Attribute(name, None)
        if not (kind.startswith("{") and kind.endswith("}")):
            self.fail(f"attribute {shown(name)} is of type {shown(kind)}", _ATTRIBUTE)
        values = [unquote(entry) for entry in split_entries(kind[1:-1]) or [""]]
        if not all(values) or len(set(values)) < len(values):
            self.fail(f"attribute {shown(name)} has the values {shown(kind)}", "expected different values, and commas")
        return Attribute(name, tuple(values))


def shown_values(values: Sequence[str]) -> str:
    r"""The first values of an attribute, for messages.

    >>> shown_values(["red", "dark\tgreen"]), shown_values("abcdefg")
    ("'red', 'dark\\tgreen'", "'a', 'b', 'c', 'd', 'e', …")
    """
    return ", ".join([shown(value, limit=20) for value in values[:_SHOWN]] + ["…"] * (len(values) > _SHOWN))


def split_entries(text: str) -> list[str] | None:
    r"""What stands between commas that are not in quotes; None if a quote does not close.

    >>> split_entries("1, 'a, b' ,c"), split_entries("'a")
    (['1', "'a, b'", 'c'], None)
    """
    if "'" not in text and '"' not in text:
        return [entry.strip() for entry in text.split(",")]
    entries, at = [], 0
    while match := _ENTRY.match(text, at):
        entries.append(match[1].strip())
        if not match[2]:
            return entries
        at = match.end()
    return None


def unquote(text: str) -> str:
    r"""A name as it is meant.

    >>> unquote(r"'it\'s'"), unquote("plain")
    ("it's", 'plain')
    """
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text
