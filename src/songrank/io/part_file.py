"""A file that has not wholly arrived: ``NAME.part``, and ``NAME.part.json`` that says of which version it is a part."""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from songrank.core.errors import DataError
from songrank.io.locks import lock


@dataclass(frozen=True)
class PartFile:
    """What has arrived of ``target``, beside it."""

    target: Path

    @property
    def path(self) -> Path:
        """Where the bytes are."""
        return self.target.with_name(f"{self.target.name}.part")

    @property
    def _notes(self) -> Path:
        return self.target.with_name(f"{self.target.name}.part.json")

    @property
    def version(self) -> str | None:
        """What the server called the version that the bytes are of; None if it is not known."""
        try:
            version = json.loads(self._notes.read_text(encoding="utf-8"))["version"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return version if isinstance(version, str) else None

    def begin(self, version: str | None) -> None:
        """Say which version the bytes to come are of."""
        self._notes.write_text(json.dumps({"version": version}), encoding="utf-8")

    def free_bytes(self) -> int:
        """How much there is room for."""
        return shutil.disk_usage(self.target.parent).free

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The bytes, to be read and written by this process alone."""
        with writing(self.target):
            self.target.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            arrived = 1
            try:
                with self.path.open("r+b") as file:
                    if not lock(file.fileno()):
                        what, fix = "is being fetched by another process", "wait until that is done"
                        raise DataError(what, fix, file=str(self.target))
                    try:
                        yield file
                    finally:
                        arrived = file.seek(0, os.SEEK_END)
            finally:
                if not arrived:
                    self.forget()  # only now, since Windows removes no open file

    def finish(self) -> None:
        """Give the file its name."""
        with writing(self.target):
            os.replace(self.path, self.target)
            self._notes.unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove what has arrived."""
        with writing(self.target):
            self.path.unlink(missing_ok=True)
            self._notes.unlink(missing_ok=True)


@contextlib.contextmanager
def writing(target: Path) -> Iterator[None]:
    """Whatever the disk refuses becomes a ``DataError`` with a remedy."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "does not fit on the disk" if full else f"cannot be written ({error.strerror or error})"
        fix = "free space, then try again: what has arrived is kept" if full else "choose another folder"
        raise DataError(what, fix, file=str(target)) from None
