"""Splits of files and rows, by name."""

import re
from collections.abc import Sequence
from pathlib import Path, PurePath

from songrank.core.errors import DataError
from songrank.data.dataset import SPLITS
from songrank.io.source import Source

_WORDS = {
    "train": "train training trn trainset trainingset",
    "validation": "validation valid vali val dev development validationset validset valiset valset devset",
    "test": "test testing tst testset testingset",
}
SPLIT_WORDS = {word: split for split, words in _WORDS.items() for word in words.split()}
_DOCUMENTATION = {"readme", "license", "licence", "changelog", "citation", "copying", "notice", "eula"}
_PART_WORDS = (*SPLIT_WORDS, "part", "parts", "shard", "chunk", "piece", "block", "file", "of", "c")
_PART_NUMBER = re.compile(rf"((?<![a-z0-9])(?:{'|'.join(_PART_WORDS)})[\W_]*)\d+")

File = tuple[Source, str | None]


def split_of_path(path: PurePath | str, endings: Sequence[str] = ()) -> str | None:
    """The split of a file, by its path inside the source; None if the path names none.

    The last word of the file name that names a split decides, else such a word of its directories, nearest first. Words
    consist of letters and digits; trailing digits, upper case and ``endings``, for example ".txt", are ignored.
    """
    path = PurePath(path)
    name = path.name.lower()
    ending = max((ending for ending in endings if name.endswith(ending)), key=len, default="")
    for part in (name.removesuffix(ending), *reversed(path.parent.parts)):
        words = (word.rstrip("0123456789") for word in re.split(r"[\W_]+", part.lower()))
        named = [SPLIT_WORDS[word] for word in words if word in SPLIT_WORDS]
        if named:
            return named[-1]
    return None


def inner_path(source: Source, path: Path) -> Path:
    """Path of a file relative to the directory or archive given by the user."""
    if source.member is not None:
        return Path(source.member)
    inside = source.path != path and source.path.is_relative_to(path)
    return source.path.relative_to(path) if inside else Path(path.name)


def name_splits(sources: Sequence[Source], path: Path, endings: Sequence[str]) -> list[File]:
    """Each file with its split, for all files or for none; raises if only some files of one kind name a split.

    Documentation, and files of other kinds than those with a split, are ignored. A single file given by the user is for
    training or has no split.
    """
    files = [(source, split_of_path(inner_path(source, path), endings)) for source in sources]
    if len(files) == 1 and sources[0].name == str(path):
        return [(source, split if split == "train" else None) for source, split in files]
    named = [file for file in files if file[1] is not None]
    kinds = {_kind(source, endings) for source, _ in named}
    for source, split in files if named else ():
        words = re.split(r"[\W_]+", source.file_name.lower())
        if split is None and _kind(source, endings) in kinds and not _DOCUMENTATION.intersection(words):
            first, other = inner_path(named[0][0], path), inner_path(source, path)
            what = f"{first} names a split, but {other} does not and would be ignored"
            fix = f"rename it after a split, pass a directory with the data only, or pass one file, e.g. {source.name}"
            raise DataError(what, fix, file=str(path))
    return named or files


def in_order(files: Sequence[File], path: Path) -> list[File]:
    """Files by split, training first, and parts of a split by number; raises unless parts are of the same table."""
    first: dict[str, Source] = {}
    for source, split in files:
        other = source if split is None else first.setdefault(split, source)
        one, two = inner_path(other, path), inner_path(source, path)
        if other is not source and (one == two or _without_numbers(one) != _without_numbers(two)):
            what = f"has two files for {split}: {one} and {two}"
            raise DataError(what, "pass a directory with the files of one data set", file=str(path))
    order = (*SPLITS, None)  # training first, so that it does not depend on later files
    return sorted(files, key=lambda file: (order.index(file[1]), _by_number(inner_path(file[0], path))))


def _kind(source: Source, endings: Sequence[str]) -> str:
    return next((ending for ending in endings if source.file_name.lower().endswith(ending)), "")


def _without_numbers(path: Path) -> tuple[str, str]:
    """Directory, and name without the part number, which the parts of a table share."""
    name = path.name.lower()
    if split_of_path(name) is None:
        name = re.sub(r"^\d+", "#", name)
    return str(path.parent), _PART_NUMBER.sub(r"\1#", name)


def _by_number(path: Path) -> list[tuple[int, str]]:
    """A key that sorts 2 before 10."""
    pieces = re.split(r"(\d+)", path.as_posix())
    return [(int(piece), "") if at % 2 else (-1, piece) for at, piece in enumerate(pieces)]
