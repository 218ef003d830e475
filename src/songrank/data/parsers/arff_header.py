"""The header of an ARFF file up to ``@data``, and its label attributes, as Mulan and MEKA define them."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal
from xml.etree import ElementTree

from songrank.core.errors import DataError, shown
from songrank.io.source import Block, Job, Source, reading

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NAME = re.compile(rf"({_QUOTED}|[^\s{{]+)\s*(.*)")
_ENTRY = re.compile(rf"((?:[^,'\"]|{_QUOTED})*)(,|\Z)")
_MEKA = re.compile(r"-C\s+(-?[0-9]{1,9})(?![0-9])")
_SHOWN = 5
_ATTRIBUTE = "expected @attribute NAME, followed by numeric or values in braces"


@dataclass(frozen=True)
class Attribute:
    """A column: its name and its nominal values, None for numeric columns."""

    name: str
    values: tuple[str, ...] | None


@dataclass(frozen=True)
class ArffHeader:
    """The header before ``@data``."""

    relation: str
    attributes: tuple[Attribute, ...]


def read_header(source: Source, job: Job) -> tuple[ArffHeader, Iterator[Block]]:
    """The header of a file, and the blocks of rows after it."""
    blocks = source.blocks(job)
    relation, attributes = "", list[Attribute]()
    for block in blocks:
        for line, text in block.texts():
            keyword, _, rest = text.strip().replace("\t", " ").partition(" ")
            match keyword.lower():
                case "@relation":
                    relation = rest.strip()
                case "@attribute":
                    attributes.append(_attribute(rest.strip(), block, line))
                case "@data":
                    if not attributes:
                        block.fail("@data comes before any attribute", _ATTRIBUTE, line)
                    rows = block.data.split(b"\n", line - block.line + 1)[-1]
                    return ArffHeader(relation, tuple(attributes)), chain([Block(rows, line + 1, block.file)], blocks)
                case _ if keyword and not keyword.startswith("%"):
                    fix = "expected @relation, @attribute or @data before the rows"
                    block.fail(f"line is {shown(text.strip())}", fix, line)
    fix = "expected an ARFF file: @relation, @attribute …, @data, rows"
    raise DataError("has no @data line", fix, file=source.name)


def _attribute(text: str, block: Block, line: int) -> Attribute:
    match = _NAME.fullmatch(text)
    if match is None:
        block.fail(f"attribute is {shown(text)}", _ATTRIBUTE, line)
    name, kind = unquote(match[1]), match[2].strip()
    if kind.lower() in ("numeric", "real", "integer"):
        return Attribute(name, None)
    if not (kind.startswith("{") and kind.endswith("}")):
        block.fail(f"attribute {shown(name)} is of type {shown(kind)}", _ATTRIBUTE, line)
    values = [unquote(entry) for entry in split_entries(kind[1:-1]) or [""]]
    if not all(values) or len(set(values)) < len(values):
        what = f"attribute {shown(name)} has the values {shown(kind)}"
        block.fail(what, "expected distinct values, separated by commas", line)
    return Attribute(name, tuple(values))


def shown_values(values: Sequence[str]) -> str:
    r"""Format the first values of an attribute for messages.

    >>> shown_values(["red", "dark\tgreen"]), shown_values("abcdefg")
    ("'red', 'dark\\tgreen'", "'a', 'b', 'c', 'd', 'e', …")
    """
    return ", ".join([shown(value, limit=20) for value in values[:_SHOWN]] + ["…"] * (len(values) > _SHOWN))


def split_entries(text: str) -> list[str] | None:
    r"""Split at commas outside quotes; None if quotes are unbalanced.

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
    r"""Remove quotes and backslashes from a name.

    >>> unquote(r"'it\'s'"), unquote("plain")
    ("it's", 'plain')
    """
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def read_label_list(source: Source, job: Job) -> list[str]:
    """Label names in Mulan's XML file, including nested labels."""
    try:
        with reading(source.name):
            root = ElementTree.parse(source.whole(job)).getroot()
    except ElementTree.ParseError as error:
        what = f"is not valid XML ({error.msg.partition(':')[0]})"
        raise DataError(what, "download it again", file=source.name, line=error.position[0]) from None
    except (ValueError, LookupError) as error:  # encodings
        raise DataError(f"cannot be read ({error})", "convert it to UTF-8", file=source.name) from None
    names = [element.get("name", "") for element in root.iter() if element.tag.rpartition("}")[2] == "label"]
    if not names or not all(names):
        raise DataError("has no or unnamed labels", 'expected <label name="…"> elements', file=source.name)
    if repeated := _repeated(names):
        raise DataError(f"label {shown(repeated)} is repeated", "expected each label once", file=source.name)
    return names


def listed_labels(header: ArffHeader, names: Sequence[str], file: str, list_file: str) -> list[int]:
    """Positions of the listed labels among the attributes."""
    places = {attribute.name: at for at, attribute in enumerate(header.attributes)}
    counts = Counter(attribute.name for attribute in header.attributes)
    for name in names:
        if counts[name] != 1:
            times = f"{counts[name]} attributes" if counts[name] else "no attribute"
            what = f"has {times} named {shown(name)}, a label in {list_file}"
            raise DataError(what, "expected files of the same data set", file=file)
    return [places[name] for name in names]


def counted_labels(header: ArffHeader, count: int, position: Literal["first", "last"], file: str) -> list[int]:
    """Positions of the first or the last ``count`` attributes."""
    size = len(header.attributes)
    if size == 1:
        raise DataError("has one attribute", "expected at least a feature and a label", file=file)
    if not 0 < count < size:
        what = f"has {size:,} attributes, but {count:,} labels are requested"
        raise DataError(what, f"expected 1 to {size - 1:,} labels", file=file)
    labels = list(range(count)) if position == "first" else list(range(size - count, size))
    if (repeated := _repeated([header.attributes[at].name for at in labels])) is not None:
        raise DataError(f"label {shown(repeated)} is repeated", "expected distinct names", file=file)
    return labels


def _repeated(names: Sequence[str]) -> str | None:
    return next((name for name, times in Counter(names).items() if times > 1), None)


def meka_labels(header: ArffHeader) -> tuple[int, Literal["first", "last"]] | None:
    """Number and position of labels in MEKA's ``-C n``; a negative number means the last attributes.

    >>> meka_labels(ArffHeader("'Music: -C 6'", ())), meka_labels(ArffHeader("enron -C -53", ()))
    ((6, 'first'), (53, 'last'))
    """
    match = _MEKA.search(header.relation)
    if match is None:
        return None
    number = int(match[1])
    return abs(number), "first" if number >= 0 else "last"
