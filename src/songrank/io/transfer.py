"""Resumable HTTP downloads."""

import contextlib
import errno
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NoReturn

from songrank.core.errors import DataError, first_line
from songrank.io.files import NO_LINK, create, write_remedy
from songrank.io.locks import lock
from songrank.io.source import Progress

_READ_BYTES = 1 << 20
_BUSY = (408, 425, 429, 500, 502, 503, 504)
_BY_HAND = "download it in a browser and pass the file"


@dataclass(frozen=True)
class PartFile:
    """The partial download of ``target``, in the same directory."""

    target: Path

    @property
    def path(self) -> Path:
        """Path of the partial file."""
        return self.target.with_name(f"{self.target.name}.part")

    @property
    def _notes(self) -> Path:
        return self.target.with_name(f"{self.target.name}.part.json")

    @property
    def version(self) -> str | None:
        """ETag or modification date of the partial file, if known."""
        try:
            version = json.loads(self._notes.read_text(encoding="utf-8"))["version"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return version if isinstance(version, str) else None

    def begin(self, version: str | None) -> None:
        """Record the version of the download."""
        self._notes.unlink(missing_ok=True)
        with create(self._notes) as file:
            file.write(json.dumps({"version": version}).encode())

    def free_bytes(self) -> int:
        """Free disk space in bytes."""
        return shutil.disk_usage(self.target.parent).free

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open the partial file with an exclusive lock."""
        with writing(self.target):
            self.target.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | NO_LINK | getattr(os, "O_BINARY", 0), 0o666)
            arrived = 1
            try:
                with os.fdopen(handle, "r+b") as file:
                    if not lock(file.fileno()):
                        what, fix = "is being downloaded by another process", "wait until it has finished"
                        raise DataError(what, fix, file=str(self.target))
                    try:
                        yield file
                    finally:
                        arrived = file.seek(0, os.SEEK_END)
            finally:
                if not arrived:
                    self.forget()  # after closing: Windows cannot remove open files

    def finish(self) -> None:
        """Rename the partial file to ``target``."""
        with writing(self.target):
            os.replace(self.path, self.target)
            self._notes.unlink(missing_ok=True)

    def forget(self) -> None:
        """Remove the partial file."""
        with writing(self.target):
            self.path.unlink(missing_ok=True)
            self._notes.unlink(missing_ok=True)


@contextlib.contextmanager
def writing(target: Path) -> Iterator[None]:
    """Convert an ``OSError`` to a ``DataError`` with a remedy."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "disk is full" if full else f"cannot be written ({error.strerror or error})"
        resume = "free disk space, then run the command again to resume"
        fix = resume if full else write_remedy(error, "choose another directory")
        raise DataError(what, fix, file=str(target)) from None


class _BrokenOff(Exception):  # noqa: N818 (not an error: the next attempt may succeed)
    """A transient failure of the connection or the server."""


@dataclass
class Transfer:
    """A download from ``url`` to ``part``; for other arguments see :func:`songrank.data.download.download`."""

    url: str
    part: PartFile
    size: int | None
    progress: Progress | None
    attempts: int
    wait: Callable[[float], None]
    timeout: float
    _answered: bool = field(default=False, init=False)

    def run(self, file: IO[bytes]) -> None:
        """Download the missing bytes of ``file``, the open partial file."""
        failed, furthest = 0, 0
        while True:
            try:
                return self._attempt(file)
            except _BrokenOff as reason:
                arrived = file.tell()
                failed, furthest = (1, arrived) if arrived > furthest else (failed + 1, furthest)
                if failed >= self.attempts:
                    self._fail(f"interrupted after {arrived:,} bytes ({reason})", "run the command again to resume")
            self.wait(min(2.0 ** (failed - 1), 30.0))

    def _attempt(self, file: IO[bytes]) -> None:
        version = self.part.version
        have = file.seek(0, os.SEEK_END) if version else file.seek(0)
        headers = {"User-Agent": "songrank", "Accept-Encoding": "identity"}
        if have and version:
            headers |= {"Range": f"bytes={have}-", "If-Range": version}
        with self._open(urllib.request.Request(self.url, headers=headers), file) as response:
            if response is None:
                return
            start, total = _extent(response)
            if start and (start != have or _is_other(version, response)):
                file.truncate(file.seek(0))
                raise _BrokenOff("the server sent the wrong byte range")
            if None not in (total, self.size) and total != self.size:
                fix = f"it is another file or a web page; {_BY_HAND}"
                self._fail(f"has {total:,} bytes, expected {self.size:,}", fix)
            file.truncate(file.seek(start))
            missing, free = (total or 0) - start, self.part.free_bytes()
            if missing > free:
                self._fail(f"needs {missing:,} bytes, but {free:,} are free", "free disk space and try again")
            if not start:
                self.part.begin(_version(response))
            self._copy(response, file, total)

    def _copy(self, response: http.client.HTTPResponse, file: IO[bytes], total: int | None) -> None:
        while True:
            try:
                block = response.read(_READ_BYTES)
            except (http.client.HTTPException, OSError) as error:
                raise _BrokenOff(_words(error)) from None
            if not block:
                break
            file.write(block)
            if self.progress is not None:
                self.progress(f"downloading {self.part.target.name}", file.tell(), total)
        file.flush()
        if total is not None and file.tell() < total:
            raise _BrokenOff(f"expected {total:,}")
        os.fsync(file.fileno())

    @contextlib.contextmanager
    def _open(self, request: urllib.request.Request, file: IO[bytes]) -> Iterator[http.client.HTTPResponse | None]:
        """The response to a request, or None if the file is complete."""
        try:
            response = urllib.request.urlopen(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            with error:
                self._explain(error, file)
            yield None
            return
        except (http.client.InvalidURL, UnicodeError):
            self._fail("is not a valid URL", "check the address")
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(reason, ssl.SSLCertVerificationError):
                self._fail(f"has an invalid certificate ({reason.verify_message})", _BY_HAND)
            if isinstance(reason, socket.gaierror) and not self._answered:
                self._fail("has an unknown host", "check the address and the network")
            raise _BrokenOff(_words(reason)) from None
        self._answered = True
        with response:
            yield response

    def _explain(self, error: urllib.error.HTTPError, file: IO[bytes]) -> None:
        """Raise for an HTTP error, unless the file is complete."""
        found = f"{error.code} {error.reason}".strip()
        if error.code == 416:
            whole = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
            if whole and int(whole[1]) == file.tell():
                return
            file.truncate(file.seek(0))
            raise _BrokenOff(found)
        if error.code in _BUSY:
            raise _BrokenOff(f"HTTP {found}")
        if error.code in (401, 403):
            self._fail(f"access denied ({found})", f"it may need a login or accepted terms; {_BY_HAND}")
        if error.code in (404, 410):
            self._fail(f"not found ({found})", f"it may have moved; {_BY_HAND}")
        self._fail(f"download failed ({found})", _BY_HAND)

    def _fail(self, what: str, fix: str) -> NoReturn:
        raise DataError(what, fix, file=self.url) from None


def _extent(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """Offset of the response in the file (−1 if unknown), and the total size."""
    if response.status != 206:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdigit() else None
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    return (int(found[1]), None if found[2] == "*" else int(found[2])) if found else (-1, None)


def _version(response: http.client.HTTPResponse) -> str | None:
    """Version of the file: strong ETag or modification date."""
    tag: str | None = response.headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")


def _is_other(version: str | None, response: http.client.HTTPResponse) -> bool:
    """Whether the version differs from the partial file, for servers without If-Range."""
    tag = response.headers.get("ETag")
    return tag is not None and str(version).startswith('"') and tag != version


def _words(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.partition("\n")[0]
    return first_line(error) if isinstance(error, BaseException) else str(error).partition("\n")[0]
