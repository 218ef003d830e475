"""Single files: atomic writes and copies, and SHA-256 checksums."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from songrank.core.errors import DataError, first_line

WINDOWS = os.name == "nt"  # open files cannot be removed or replaced
NEW = ".songrank-new-"  # prefix of a file's name while it is being written
_BLOCK_BYTES = 1 << 22


def write_whole(file: Path, content: str | bytes) -> None:
    """Replace a file atomically; a failed or interrupted write leaves no temporary file unless killed."""
    data = content.encode() if isinstance(content, str) else content
    new = file.parent / f"{NEW}{file.name}"
    try:
        with writing(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_synced(new, data)
            new.replace(file)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise


def copy_whole(source: Path, target: Path) -> None:
    """Replace a file atomically by a copy of another; a failed copy leaves no temporary file unless killed."""
    new = target.parent / f"{NEW}{target.name}"
    try:
        with writing(target):
            shutil.copyfile(source, new)
            new.replace(target)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise


def write_synced(file: Path, content: bytes) -> None:
    """Write a file and flush it to disk."""
    with file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def make_folder(folder: Path) -> None:
    """Create a directory and its parents unless it exists."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Convert an ``OSError`` to the error of :func:`not_written`."""
    try:
        yield
    except OSError as error:
        raise not_written(file, error) from None


@contextmanager
def new_parents(target: Path) -> Iterator[None]:
    """Remove newly created parent directories if ``target`` does not exist at the end."""
    made = [parent for parent in target.parents if not parent.exists()]
    try:
        yield
    finally:
        if not target.exists():
            for parent in made:
                with suppress(OSError):
                    parent.rmdir()


def not_written(file: Path, error: Exception) -> DataError:
    """The error for a file that could not be written."""
    reason = error.strerror if isinstance(error, OSError) else None
    what = f"cannot be written ({reason or first_line(error)})"
    return DataError(what, "free disk space or choose another path with -o", file=str(file))


def sha256(content: str | bytes) -> str:
    """Hexadecimal SHA-256 of bytes, or of a string in UTF-8."""
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
    """Raise a ``DataError`` with message ``damaged`` unless the file has this SHA-256."""
    try:
        (found,) = file_digests(file, "sha256")
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", fix, file=str(file)) from None
    if found != expected:
        raise DataError(damaged, fix, file=str(file))
