"""Files of a LETOR data set: folds, sets, partitions and group files, identified by name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from glob import escape
from itertools import product
from pathlib import Path
from typing import TypeVar

from songrank.core.errors import DataError
from songrank.data.split_names import SPLIT_WORDS, File, in_order, inner_path, name_splits
from songrank.io.source import Source, find_sources, reading

T = TypeVar("T")

GROUP_ENDINGS = (".query", ".group")
_ENDINGS = (".txt", ".dat", ".svm", ".svmlight", ".libsvm", ".letor")
_SET = re.compile(r"set(\d+)\..*", re.IGNORECASE)
_PARTITION = re.compile(r"(?P<letter>[a-z])(?P<part>[1-5])\.txt", re.IGNORECASE)
_FOLD = re.compile(r"fold[ _-]?(\d+)", re.IGNORECASE)
_PATTERNS = [f"*{ending}" for ending in _ENDINGS + GROUP_ENDINGS]
_NUMBERS = ("", "[0-9]", "[0-9][0-9]", "[._-][0-9]", "[._-][0-9][0-9]", "-[0-9]*-of-*[0-9]")
_PATTERNS += ["".join(parts) for parts in product(("", "*.", "*-", "*_"), SPLIT_WORDS, _NUMBERS)]
PARTS = 5


@dataclass(frozen=True)
class LetorFile:
    """A file of rows, its split (None if unknown), and its file of group sizes, if any."""

    source: Source
    split: str | None
    groups: Source | None = None


@dataclass(frozen=True)
class LetorFiles:
    """The files of a data set in reading order, and the selected fold and set."""

    files: list[LetorFile]
    chosen: dict[str, int]


def find_files(path: Path, fold: int | None, set_number: int | None) -> LetorFiles:
    """Find the files of a data set: one or more per split, or a single file."""
    found = find_sources(path, _PATTERNS, "LETOR files, e.g. train.txt and test.txt, or S1.txt to S5.txt")
    groups = [source for source in found if source.file_name.lower().endswith(GROUP_ENDINGS)]
    sources = [source for source in found if source not in groups] or found
    if len(found) == 1:
        groups = _beside(found[0])
    chosen: dict[str, int] = {}
    sources = _of_fold(sources, path, fold, chosen)
    files = name_splits(sources, path, _ENDINGS)
    if files[0][1] is None and len(files) > 1:
        return _partition(sources, path, fold)
    files = in_order(_of_set(files, path, set_number, chosen), path)
    return LetorFiles([LetorFile(source, split, _groups_of(source, groups)) for source, split in files], chosen)


def _of_fold(sources: list[Source], path: Path, fold: int | None, chosen: dict[str, int]) -> list[Source]:
    """The files in the directory of this fold, if there are fold directories."""
    folds: dict[int, list[Source]] = {}
    for source in sources:
        for folder in reversed(inner_path(source, path).parent.parts):
            if number := _FOLD.fullmatch(folder):
                folds.setdefault(int(number[1]), []).append(source)
                break
    if not folds and len(sources) > 1 and any(_PARTITION.fullmatch(source.file_name) for source in sources):
        return sources
    itself = _FOLD.fullmatch(path.name)
    if itself and not folds:
        chosen["fold"] = int(itself[1])
    return _pick(folds, sources, fold, int(itself[1]) if itself else 1, "fold", path, chosen)


def _of_set(files: list[File], path: Path, set_number: int | None, chosen: dict[str, int]) -> list[File]:
    """The files of this set, if files are named by set."""
    sets: dict[int, list[File]] = {}
    for file in files:
        if name := _SET.fullmatch(file[0].file_name):
            sets.setdefault(int(name[1]), []).append(file)
    return _pick(sets, files, set_number, 1, "set", path, chosen)


def _pick(
    choices: dict[int, list[T]],
    files: list[T],
    number: int | None,
    only: int,
    what: str,
    path: Path,
    chosen: dict[str, int],
) -> list[T]:
    """The files of a fold or set, by default the first, recorded in ``chosen``; all ``files`` if there are none."""
    if not choices:
        if number not in (None, only):
            fix = "omit the option"
            raise DataError(f"{what} is {number}, but there is only one", fix, file=str(path))
        return files
    number = min(choices) if number is None else number
    if number not in choices:
        there = ", ".join(map(str, sorted(choices)))
        raise DataError(f"has no {what} {number}", f"expected one of {there}", file=str(path))
    chosen[what] = number
    return choices[number]


def _partition(sources: Sequence[Source], path: Path, fold: int | None) -> LetorFiles:
    """Fold k of five parts: train on k, k + 1 and k + 2, validate on k + 3, test on k + 4."""
    parts: dict[str, dict[int, Source]] = {}
    for source in sources:
        if name := _PARTITION.fullmatch(source.file_name):
            folder = inner_path(source, path).parent / name["letter"].upper()
            parts.setdefault(str(folder), {})[int(name["part"])] = source
    if len(parts) != 1:
        names = ", ".join(str(inner_path(source, path)) for source in sources[:PARTS])
        fix = "pass one of them, or rename them to train.txt and test.txt"
        raise DataError(f"cannot assign files to splits: {names}", fix, file=str(path))
    stem, numbered = next(iter(parts.items()))
    missing = [f"{stem}{number}.txt" for number in range(1, PARTS + 1) if number not in numbered]
    if missing:
        raise DataError(f"{', '.join(missing)} missing", "expected all five parts of the partition", file=str(path))
    first = 1 if fold is None else fold
    if first > PARTS:
        raise DataError(f"fold is {fold}", f"expected 1 to {PARTS}", file=str(path))
    splits = ("train", "train", "train", "validation", "test")
    files = [LetorFile(numbered[(first - 1 + ahead) % PARTS + 1], split) for ahead, split in enumerate(splits)]
    return LetorFiles(files, {"fold": first})


def _beside(source: Source) -> list[Source]:
    """Files of group sizes for a single file."""
    endings = [escape(source.file_name) + ending for ending in GROUP_ENDINGS]
    try:
        if source.member is not None:
            return find_sources(source.path, endings, "")
        with reading(str(source.path.parent)):
            return [Source(file) for file in sorted(source.path.parent.iterdir()) if file.is_file()]
    except DataError:  # none found
        return []


def _groups_of(source: Source, groups: Sequence[Source]) -> Source | None:
    names = [source.file_name.lower() + ending for ending in GROUP_ENDINGS]
    folder = Path(source.member or source.path).parent
    near = (group for group in groups if Path(group.member or group.path).parent == folder)
    return next((group for group in near if group.file_name.lower() in names), None)
