"""SHA-256 of texts, bytes and files."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from songrank.core.errors import DataError

_BLOCK_BYTES = 1 << 22


def sha256(content: str | bytes) -> str:
    """Hexadecimal SHA-256 of bytes, or of a text in UTF-8.

    >>> sha256("song")[:12]
    '63f75c890b05'
    """
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def file_digests(file: Path, *algorithms: str, progress: Callable[[int], None] | None = None) -> list[str]:
    """Digests of a file in one pass; ``progress`` receives the number of bytes read so far."""
    digests = [hashlib.new(name, usedforsecurity=False) for name in algorithms]
    done = 0
    with file.open("rb") as stream:
        while digests and (block := stream.read(_BLOCK_BYTES)):
            for digest in digests:
                digest.update(block)
            done += len(block)
            if progress is not None:
                progress(done)
    return [digest.hexdigest() for digest in digests]


def check_sha256(file: Path, expected: Any, damaged: str, fix: str) -> None:
    """Raise a ``DataError`` that says ``damaged`` unless the file has this SHA-256."""
    try:
        (found,) = file_digests(file, "sha256")
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", fix, file=str(file)) from None
    if found != expected:
        raise DataError(damaged, fix, file=str(file))
