"""A partial download: ``NAME.part``, and ``NAME.part.json`` with the version that it is a part of."""

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
    """The bytes of ``target`` that have arrived, beside it."""

    target: Path

    @property
    def path(self) -> Path:
        """File of the bytes."""
        return self.target.with_name(f"{self.target.name}.part")

    @property
    def _notes(self) -> Path:
        return self.target.with_name(f"{self.target.name}.part.json")

    @property
    def version(self) -> str | None:
        """The server's name of the version of these bytes, if known."""
        try:
            version = json.loads(self._notes.read_text(encoding="utf-8"))["version"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return version if isinstance(version, str) else None

    def begin(self, version: str | None) -> None:
        """Record the version of the bytes to come."""
        self._notes.write_text(json.dumps({"version": version}), encoding="utf-8")

    def free_bytes(self) -> int:
        """Free disk space."""
        return shutil.disk_usage(self.target.parent).free

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The file, for reading and writing by this process alone."""
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
                    self.forget()  # only now: Windows removes no open file

    def finish(self) -> None:
        """Rename the part to ``target``."""
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
    """Turn an ``OSError`` into a ``DataError`` with a remedy."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "does not fit on the disk" if full else f"cannot be written ({error.strerror or error})"
        fix = "free space, then try again: what has arrived is kept" if full else "choose another folder"
        raise DataError(what, fix, file=str(target)) from None
