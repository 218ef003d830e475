"""Single files: atomic writes and copies, and SHA-256 checksums."""

import errno
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from songrank.core.errors import DataError, first_line

WINDOWS = os.name == "nt"  # open files cannot be removed or replaced
NEW = ".songrank-new-"  # prefix of a file's name while it is being written
NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)  # of os.open: do not follow a symbolic link
_EXCLUSIVE = os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINK | getattr(os, "O_BINARY", 0)
_MARK = re.compile(r".*\.songrank-[a-z]+-(.*)-([0-9]+)-[0-9a-f]{8}(?:\.[^.]*)?", re.DOTALL)
_MOST_SUFFIX = 16  # characters; a longer suffix is not part of a temporary name
_BLOCK_BYTES = 1 << 22
_NO_PERMISSION = (errno.EACCES, errno.EPERM, errno.EROFS)
_WRONG_PLACE = (errno.ENOTDIR, errno.EISDIR, errno.ENOENT, errno.ENAMETOOLONG, errno.EEXIST, errno.ELOOP, errno.EINVAL)


def write_whole(file: Path, content: str | bytes) -> None:
    """Replace a file atomically, even while other processes write it too. See :func:`replacing`."""
    with replacing(file) as (_, stream):
        stream.write(content.encode() if isinstance(content, str) else content)


def copy_whole(source: Path, target: Path) -> None:
    """Replace a file atomically by a copy of another. See :func:`replacing`."""
    with replacing(target) as (_, stream), source.open("rb") as original:
        shutil.copyfileobj(original, stream, _BLOCK_BYTES)


@contextmanager
def replacing(target: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Yield a new file of a unique name beside ``target``, open for writing; on success it replaces ``target``.

    The content is flushed to disk before. On failure the file is removed; if the process is killed, the next writer in
    the directory removes it. No symbolic link is followed.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replacing(target) as (new, stream):
    ...     _ = stream.write(b"one")
    >>> target.read_text(), [file.name for file in target.parent.iterdir()]
    ('one', ['a.txt'])
    """
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target.parent)
        new, stream = _new_file(target)
    try:
        with writing(target):
            with stream:
                yield new, stream
                stream.flush()
                os.fsync(stream.fileno())
            new.replace(target)
            sync_folder(target.parent)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise


def _new_file(target: Path) -> tuple[Path, IO[bytes]]:
    """Create an empty file of a unique temporary name beside ``target``."""
    suffix = target.suffix if len(target.suffix) <= _MOST_SUFFIX else ""
    while True:
        new = target.parent / f"{NEW}{process_mark()}{suffix}"
        with suppress(FileExistsError):
            return new, create(new)


def create(file: Path, mode: int = 0o666) -> IO[bytes]:
    """Create a file that must not exist, not even as a symbolic link, and open it for writing."""
    return os.fdopen(os.open(file, _EXCLUSIVE, mode), "w+b")


def open_regular(file: Path) -> IO[bytes]:
    """Open a file for reading; an ``OSError`` if it is a FIFO, a device or a directory, which could block or never end.

    >>> open_regular(Path("/dev/zero"))
    Traceback (most recent call last):
    OSError: [Errno 22] not a regular file: '/dev/zero'
    """
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    raise OSError(errno.EINVAL, "not a regular file", str(file))


def read_whole(file: Path, most: int) -> bytes:
    """The content of a regular file; an ``OSError`` if it has more than ``most`` bytes."""
    with open_regular(file) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(file))
    return content


def process_mark() -> str:
    """A unique end of a temporary name, from which :func:`in_use` recognises the process."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"


def in_use(name: str) -> bool:
    """Whether the process that chose a temporary name may still run; True on Windows and for other hosts.

    >>> in_use(f"{NEW}{process_mark()}.json"), in_use(f"{NEW}a.json")
    (True, False)
    """
    found = _MARK.fullmatch(name)
    if found is None:
        return False
    if WINDOWS or found[1] != socket.gethostname():  # on Windows os.kill would terminate the process
        return True
    try:
        os.kill(int(found[2]), 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, PermissionError)
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of killed processes in a directory."""
    with suppress(OSError), os.scandir(folder) as entries:
        left = [entry.path for entry in entries if entry.name.startswith(NEW) and not in_use(entry.name)]
        for file in left:
            with suppress(OSError):  # a directory, or removed by another process
                os.unlink(file)


def sync_folder(folder: Path) -> None:
    """Flush the entries of a directory to disk, if directories can be opened."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # on Windows
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
    return DataError(what, write_remedy(error, "choose another path with -o"), file=str(file))


def write_remedy(error: Exception, otherwise: str) -> str:
    """The remedy for a failed write; ``otherwise`` is to choose another place.

    >>> write_remedy(PermissionError(errno.EACCES, "Permission denied"), "choose another directory")
    'check the permissions of the directory, or choose another directory'
    """
    code = error.errno if isinstance(error, OSError) else None
    if code in _NO_PERMISSION:
        return f"check the permissions of the directory, or {otherwise}"
    return otherwise if code in _WRONG_PLACE else f"free disk space or {otherwise}"


def sha256(content: str | bytes) -> str:
    """Hexadecimal SHA-256 of bytes, or of a string in UTF-8."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def file_digests(file: Path, *algorithms: str, progress: Callable[[int], None] | None = None) -> list[str]:
    """Digests of a file in one pass; ``progress`` receives the number of bytes read so far."""
    digests = [hashlib.new(name, usedforsecurity=False) for name in algorithms]
    done = 0
    with open_regular(file) as stream:
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
    except FileNotFoundError:
        raise DataError("is missing", fix, file=str(file)) from None
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", fix, file=str(file)) from None
    if found != expected:
        raise DataError(damaged, fix, file=str(file))
