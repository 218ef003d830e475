"""Inter-process file locks: ``fcntl``, ``msvcrt`` on Windows, or none if the file system has no locks."""

import errno
import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from songrank.core.errors import DataError
from songrank.io.files import NO_LINK

LOCK = ".songrank-lock"  # name of the lock file
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_TAKEN = {errno.EACCES, errno.EAGAIN, errno.EDEADLK}
_FAR = 2**32 - 2  # Windows blocks reads of the locked byte, so it lies beyond the end of most files

_fcntl: Any = None
_msvcrt: Any = None
with suppress(ImportError):
    _fcntl = importlib.import_module("fcntl")
with suppress(ImportError):
    _msvcrt = importlib.import_module("msvcrt")


def lock(handle: int) -> bool:
    """Lock an open file until it is closed; False if locked by another process, True if locks are unsupported."""
    try:
        if _fcntl is not None:
            _fcntl.flock(handle, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        elif _msvcrt is not None:
            os.lseek(handle, _FAR, os.SEEK_SET)
            _msvcrt.locking(handle, _msvcrt.LK_NBLCK, 1)
            os.lseek(handle, 0, os.SEEK_SET)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        if error.errno not in _NO_LOCKS:
            raise
    return True


@contextmanager
def alone(folder: Path, doing: str) -> Iterator[None]:
    """Lock a directory; ``doing`` describes the use in the error of other processes. The lock file is kept."""
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | NO_LINK, 0o666)
    except OSError as error:
        what = f"cannot be written to ({error.strerror})"
        raise DataError(what, "check path and permissions", file=str(folder)) from None
    try:
        if not lock(handle):
            raise DataError(f"is being {doing} by another process", "wait until it has finished", file=str(folder))
        yield
    finally:
        os.close(handle)
