"""Which split a file or a row is for, as its name says."""

import re
from collections.abc import Sequence
from pathlib import Path

from songrank.data.dataset import SPLITS
from songrank.data.errors import DataError
from songrank.data.source import Source

SPLIT_WORDS = {
    "train": "train",
    "training": "train",
    "vali": "validation",
    "valid": "validation",
    "validation": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}
_LAST_WORD = re.compile(rf"(?:.*[._-])?({'|'.join(SPLIT_WORDS)})", re.IGNORECASE)


def split_of_name(name: str, endings: Sequence[str]) -> str | None:
    """The split that a file's last word names, before one of ``endings``; None if it names none.

    >>> [split_of_name(name, (".txt",)) for name in ("vali.txt", "set1.train.txt", "rank.test", "latest.txt")]
    ['validation', 'train', 'test', None]
    """
    ending = next((ending for ending in endings if name.lower().endswith(ending)), "")
    word = _LAST_WORD.fullmatch(name.removesuffix(name[len(name) - len(ending) :]))
    return SPLIT_WORDS[word[1].lower()] if word else None


def split_order(split: str | None) -> int:
    """For sorting: training first, so that nothing about it depends on what is read later."""
    return len(SPLITS) if split is None else SPLITS.index(split)


def inner_path(source: Source, path: Path) -> Path:
    """Where a file is, as seen from the folder or archive that the user named."""
    if source.member is not None:
        return Path(source.member)
    return (
        source.path.relative_to(path) if source.path.is_relative_to(path) and source.path != path else Path(path.name)
    )


def check_one_a_split(files: Sequence[tuple[Source, str | None]], path: Path) -> None:
    """Raise if two files are for one split: then they are of two data sets."""
    first: dict[str | None, Source] = {}
    for source, split in files:
        other = first.setdefault(split, source)
        if other is not source:
            raise DataError(
                f"holds two files for {split}: {inner_path(other, path)} and {inner_path(source, path)}",
                "name a folder with the files of one data set",
                file=str(path),
            )
