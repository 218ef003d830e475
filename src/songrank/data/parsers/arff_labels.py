"""Which attributes of an ARFF file are labels: Mulan lists them in an XML file, MEKA counts them in its first line."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal
from xml.etree import ElementTree

from songrank.core.errors import DataError, shown
from songrank.data.parsers.arff_header import ArffHeader
from songrank.io.source import Job, Source, reading

_MEKA = re.compile(r"-C\s+(-?[0-9]{1,9})(?![0-9])")


def read_label_list(source: Source, job: Job) -> list[str]:
    """Names of the labels in Mulan's XML file, those inside other labels too."""
    try:
        with reading(source.name):
            root = ElementTree.parse(source.whole(job)).getroot()
    except ElementTree.ParseError as error:
        what = f"is not XML ({error.msg.partition(':')[0]})"
        raise DataError(what, "fetch it again", file=source.name, line=error.position[0]) from None
    except (ValueError, LookupError) as error:  # encodings
        raise DataError(f"cannot be read ({error})", "save it as UTF-8", file=source.name) from None
    elements = [element for element in root.iter() if element.tag.rpartition("}")[2] == "label"]
    names = [element.get("name") for element in elements]
    found = [name for name in names if name]
    if not found or len(found) < len(names):
        raise DataError("has labels without a name, or none", 'expected <label name="…"> elements', file=source.name)
    if repeated := [name for name, times in Counter(found).items() if times > 1]:
        raise DataError(f"label {shown(repeated[0])} is listed twice", "expected each label once", file=source.name)
    return found


def listed_labels(header: ArffHeader, names: Sequence[str], file: str, list_file: str) -> list[int]:
    """Where the labels of a list are among the attributes."""
    places: dict[str, list[int]] = {}
    for at, attribute in enumerate(header.attributes):
        places.setdefault(attribute.name, []).append(at)
    for name in names:
        if len(places.get(name, [])) != 1:
            times = "no attribute" if name not in places else f"{len(places[name])} attributes"
            raise DataError(
                f"has {times} with the name {shown(name)}, which {list_file} lists as a label",
                "expected the list and the file of one data set",
                file=file,
            )
    return [places[name][0] for name in names]


def counted_labels(header: ArffHeader, count: int, position: Literal["first", "last"], file: str) -> list[int]:
    """The first or the last so many attributes."""
    size = len(header.attributes)
    if size == 1:
        raise DataError("has one attribute", "expected at least two: a feature and a label", file=file)
    if not 0 < count < size:
        what = f"has {size:,} attributes, so that {count:,} of them cannot be labels"
        raise DataError(what, f"expected a number from 1 to {size - 1:,}", file=file)
    labels = list(range(count)) if position == "first" else list(range(size - count, size))
    names = Counter(header.attributes[at].name for at in labels)
    if repeated := [name for name, times in names.items() if times > 1]:
        raise DataError(f"has two labels with the name {shown(repeated[0])}", "give them different names", file=file)
    return labels


def meka_labels(header: ArffHeader) -> tuple[int, Literal["first", "last"]] | None:
    """How many labels MEKA's ``-C n`` says there are, and where; a negative number counts from the end.

    >>> meka_labels(ArffHeader("'Music: -C 6'", ())), meka_labels(ArffHeader("enron -C -53", ()))
    ((6, 'first'), (53, 'last'))
    """
    match = _MEKA.search(header.relation)
    if match is None:
        return None
    number = int(match[1])
    return abs(number), "first" if number >= 0 else "last"
