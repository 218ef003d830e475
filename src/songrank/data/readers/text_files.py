"""Find files of texts, labels and label names in a directory or archive."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from songrank.core.errors import DataError, shown
from songrank.data.parsers.json_texts import json_lines
from songrank.data.preparation.labelled_queries import Role, by_role, choose_files, names_one_file
from songrank.data.preparation_options import QuerySplitOptions
from songrank.io.source import Job, Source, find_sources

_PATTERNS = ("*.json", "*.jsonl", "*.ndjson", "*texts.txt", "*labels.txt", "label_names.txt", "label_map.txt")
_EXPECTED = "JSON lines, or text and label files such as train_texts.txt and train_labels.txt"
_JSON = re.compile(r".*\.(json|jsonl|ndjson)", re.IGNORECASE)
_TEXTS = re.compile(r".*texts\.txt", re.IGNORECASE)
_LIST = re.compile(r"(lbl|labels?)(\.raw)?\.(json|jsonl|ndjson)|label_(names|map)\.txt|labels\.txt", re.IGNORECASE)


@dataclass(frozen=True)
class TextFiles:
    """Texts by role, their files of labels unless included, and the list of all labels."""

    texts: dict[Role, Source]
    labels: dict[Role, Source]
    catalogue: Source | None


def find_text_files(path: Path, options: QuerySplitOptions, encoding: str) -> TextFiles:
    """Find JSON lines, or pairs of text and label files; a single file is read as JSON lines."""
    found = [replace(source, encoding=encoding) for source in find_sources(path, _PATTERNS, _EXPECTED)]
    if names_one_file(path):
        return TextFiles(choose_files(found, options, path), {}, None)
    lists = [source for source in found if _LIST.fullmatch(source.file_name)]
    rest = [source for source in found if source not in lists]
    if objects := [source for source in rest if _JSON.fullmatch(source.file_name)]:
        texts, labels = choose_files(objects, options, path), {}
    else:
        texts = choose_files(_lines_of_text(rest, path), options, path)
        labels = {role: _partner(source, found) for role, source in texts.items()}
    lists = [source for source in lists if source not in labels.values()]
    if len(lists) > 1:
        names = ", ".join(source.file_name for source in lists)
        raise DataError(f"contains {len(lists)} lists of labels: {names}", "keep one of them", file=str(path))
    return TextFiles(texts, labels, lists[0] if lists else None)


def _lines_of_text(found: Sequence[Source], path: Path) -> list[Source]:
    """Files with one text per line; for each role raw texts are preferred."""
    texts = [source for source in found if _TEXTS.fullmatch(source.file_name)]
    if not texts:
        raise DataError(f"contains no {_EXPECTED}", "pass the directory or archive with the texts", file=str(path))
    roles = by_role(texts, path).values()
    return [chosen for sources in roles for chosen in [s for s in sources if "raw" in s.file_name.lower()] or sources]


def _partner(texts: Source, found: Sequence[Source]) -> Source:
    """The file of labels for a file of texts."""
    ending = re.compile("(raw_)?texts(?=[.]txt)", re.IGNORECASE)
    wanted = {ending.sub(name, texts.file_name).lower() for name in ("labels", "raw_labels")}
    for source in found:
        if source.file_name.lower() in wanted and _place(source) == _place(texts):
            return source
    expected = ending.sub("labels", texts.file_name)
    raise DataError("has no file of labels", f"expected {expected} with one line per text", file=texts.name)


def _place(source: Source) -> PurePosixPath:
    return PurePosixPath(source.member or source.path.as_posix()).parent


def read_catalogue(source: Source, job: Job) -> list[str]:
    """Names of all labels by index: one per line, or JSON lines with ``uid`` or ``title``."""
    if _JSON.fullmatch(source.file_name):
        found = [(row.line, row.name()) for rows in json_lines(source, job) for row in rows]
    else:
        found = [(line, text.strip()) for block in source.blocks(job) for line, text in block.texts()]
    names: dict[str, int] = {}
    for line, name in found:
        if not name:
            raise DataError("has no name", "expected one label per line", file=source.name, line=line)
        if name in names:
            what = f"label {shown(name)} is repeated from line {names[name]:,}"
            raise DataError(what, "expected each label once", file=source.name, line=line)
        names[name] = line
    return list(names)
