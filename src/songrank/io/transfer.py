"""A file over HTTP whose transfer may break off at any byte and be resumed, in this process or the next."""

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
from songrank.io.locks import lock
from songrank.io.source import Progress

_READ_BYTES = 1 << 20
_BUSY = (408, 425, 429, 500, 502, 503, 504)
_BY_HAND = "fetch it in a browser and name the file"


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


class _BrokenOff(Exception):  # noqa: N818 (not an error yet: the next attempt may succeed)
    """The connection or the server failed in a way that may pass."""


@dataclass
class Transfer:
    """A transfer from ``url`` to ``part``; the rest as for :func:`songrank.data.download.download`."""

    url: str
    part: PartFile
    size: int | None
    progress: Progress | None
    attempts: int
    wait: Callable[[float], None]
    timeout: float
    _answered: bool = field(default=False, init=False)

    def run(self, file: IO[bytes]) -> None:
        """Fetch what is missing in ``file``, the open part."""
        failed, furthest = 0, 0
        while True:
            try:
                return self._attempt(file)
            except _BrokenOff as reason:
                arrived = file.tell()
                failed, furthest = (1, arrived) if arrived > furthest else (failed + 1, furthest)
                if failed >= self.attempts:
                    self._fail(f"broke off after {arrived:,} bytes ({reason})", "try again: what has arrived is kept")
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
                raise _BrokenOff("the server sent another part than was asked for")
            if None not in (total, self.size) and total != self.size:
                fix = f"it is another file, or a page about it: {_BY_HAND}"
                self._fail(f"has {total:,} bytes and not {self.size:,}", fix)
            file.truncate(file.seek(start))
            missing, free = (total or 0) - start, self.part.free_bytes()
            if missing > free:
                self._fail(f"needs {missing:,} bytes and {free:,} are free", "free space, then try again")
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
                self.progress(f"fetching {self.part.target.name}", file.tell(), total)
        file.flush()
        if total is not None and file.tell() < total:
            raise _BrokenOff(f"{total:,} were promised")
        os.fsync(file.fileno())

    @contextlib.contextmanager
    def _open(self, request: urllib.request.Request, file: IO[bytes]) -> Iterator[http.client.HTTPResponse | None]:
        """The response to a request, or None if it says that nothing is missing."""
        try:
            response = urllib.request.urlopen(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            with error:
                self._explain(error, file)
            yield None
            return
        except (http.client.InvalidURL, UnicodeError):
            self._fail("is not a well-formed address", "check it")
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(reason, ssl.SSLCertVerificationError):
                self._fail(f"has no valid certificate ({reason.verify_message})", _BY_HAND)
            if isinstance(reason, socket.gaierror) and not self._answered:
                self._fail("has an unknown host", "check the address and the network")
            raise _BrokenOff(_words(reason)) from None
        self._answered = True
        with response:
            yield response

    def _explain(self, error: urllib.error.HTTPError, file: IO[bytes]) -> None:
        """Raise for a refused request, unless it says that the file is complete."""
        found = f"{error.code} {error.reason}".strip()
        if error.code == 416:
            whole = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
            if whole and int(whole[1]) == file.tell():
                return
            file.truncate(file.seek(0))
            raise _BrokenOff(found)
        if error.code in _BUSY:
            raise _BrokenOff(f"the server answered {found}")
        if error.code in (401, 403):
            self._fail(f"may not be fetched ({found})", f"it may want a login or its terms accepted: {_BY_HAND}")
        if error.code in (404, 410):
            self._fail(f"is not there ({found})", "it may have moved: look for it and name the file")
        self._fail(f"cannot be fetched ({found})", _BY_HAND)

    def _fail(self, what: str, fix: str) -> NoReturn:
        raise DataError(what, fix, file=self.url) from None


def _extent(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """Where the response begins in the file (−1 if unknown), and how long the whole file is."""
    if response.status != 206:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdigit() else None
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    return (int(found[1]), None if found[2] == "*" else int(found[2])) if found else (-1, None)


def _version(response: http.client.HTTPResponse) -> str | None:
    """The server's name of this version of the file; a weak ETag does not name its bytes."""
    tag: str | None = response.headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")


def _is_other(version: str | None, response: http.client.HTTPResponse) -> bool:
    """Whether the response is of another version than the part, from a server that does not know If-Range."""
    tag = response.headers.get("ETag")
    return tag is not None and str(version).startswith('"') and tag != version


def _words(error: object) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.partition("\n")[0]
    return first_line(error) if isinstance(error, BaseException) else str(error).partition("\n")[0]
