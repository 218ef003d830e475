"""Single files: each is there whole or as it was before."""

import os
from contextlib import suppress
from pathlib import Path

from songrank.core.errors import DataError, first_line

WINDOWS = os.name == "nt"  # which neither removes nor replaces what is open, and does not open directories
NEW = ".songrank-new-"  # what a file is called while it is being written
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
    reason = error.strerror if isinstance(error, OSError) else None
    return DataError(f"cannot be written ({reason or first_line(error)})", _ROOM, file=str(file))
