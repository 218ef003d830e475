"""Single files: each is there whole or as it was before, and one process at a time may write them."""

import errno
import fcntl
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from songrank.core.errors import DataError

NEW = ".songrank-new-"  # what a file is called while it is being written
LOCK = ".songrank-lock"  # what is locked while a process has a folder to itself
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_ROOM = "free space or choose another place with -o"


def write_whole(file: Path, content: str | bytes) -> None:
    """Write a file so that it is there whole or as it was before, however this process ends.

    What was begun goes when it fails or is interrupted; only a process that is killed outright leaves it behind.
    """
    data = content.encode() if isinstance(content, str) else content
    new = file.parent / f"{NEW}{file.name}"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with new.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(file)
    except BaseException as error:
        with suppress(OSError):
            new.unlink()
        if isinstance(error, OSError):
            raise not_written(file, error) from None
        raise


def make_folder(folder: Path) -> None:
    """Make a folder, and those that it is in, unless it is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_written(folder, error) from None


def not_written(file: Path, error: Exception) -> DataError:
    """The one-line error for a file that could not be written."""
    reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
    return DataError(f"cannot be written ({reason})", _ROOM, file=str(file))


@contextmanager
def alone(folder: Path, doing: str) -> Iterator[None]:
    """Keep other processes out of a folder while this one is ``doing`` something with it.

    The lock is on a file of its own, which stays and is never replaced; the system lets go of it however a process
    ends. It is opened for writing, without which network file systems lock nothing; where there are no locks at all,
    nobody is kept out.
    """
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise DataError(
            f"cannot be written to ({error.strerror})", "check path and permissions", file=str(folder)
        ) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(f"is being {doing} by another process", "wait for it", file=str(folder)) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield
    finally:
        os.close(handle)


def plain(content: Any) -> Any:
    """Null for numbers that JSON has no words for.

    >>> plain({"ndcg": float("nan"), "step": 3})
    {'ndcg': None, 'step': 3}
    """
    if isinstance(content, dict):
        return {key: plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
