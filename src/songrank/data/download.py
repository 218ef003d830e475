"""Resumable downloads of published data sets, with checksums."""

import os
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path

from songrank.core.errors import DataError
from songrank.data.registry import Download, Kind, find_kind
from songrank.io.files import file_digests
from songrank.io.source import Progress, reading
from songrank.io.transfer import PartFile, Transfer


def download(
    what: str | Kind | Download,
    folder: str | os.PathLike[str],
    *,
    size: int | None = None,
    progress: Progress | None = None,
    attempts: int = 5,
    wait: Callable[[float], None] = time.sleep,
    timeout: float = 60.0,
) -> Path:
    """Download a data set into a directory, unless the file exists, and return the file.

    It is written to ``NAME.part`` until it is complete and its checksum is verified; a later call resumes it.

    Args:
        what: a kind of data set or its name, a URL, or a URL with checksums.
        folder: created if it does not exist.
        size: the expected number of bytes, if known.
        progress: called with the current step, the bytes done, and the total (None if unknown).
        attempts: maximum number of consecutive failed connections without progress.
        wait: called with the delay in seconds before the next attempt.
        timeout: seconds without data before a connection fails.

    >>> download("ftp://example.org/ratings.zip", "data")
    Traceback (most recent call last):
    songrank.core.errors.DataError: ftp://example.org/ratings.zip: is not a URL; expected http:// or https://
    """
    found = _find(what)
    size = size if size is not None else found.size
    target = Path(folder) / _file_name(found.url)
    if target.exists():
        if wrong := _difference(target, found, size, progress):
            raise DataError(f"already exists, but {wrong}", "remove it to download it again", file=str(target))
        return target
    part = PartFile(target)
    with part.open() as file:
        Transfer(found.url, part, size, progress, attempts, wait, timeout).run(file)
        wrong = _difference(part.path, found, size, progress)
    if wrong:
        part.forget()
        fix = "the file was removed; try again, or find a newer URL"
        raise DataError(f"was downloaded, but {wrong}", fix, file=found.url)
    part.finish()
    return target


def _find(what: str | Kind | Download) -> Download:
    if isinstance(what, str):
        what = Download(what) if "://" in what else find_kind(what)
    if isinstance(what, Kind):
        if what.download is None:
            fix = f"{what.by_hand or 'obtain it manually'}; then prepare {what.wants}"
            raise DataError(f"{what.name} cannot be downloaded automatically", fix)
        what = what.download
    if not what.url.startswith(("http://", "https://")):
        raise DataError("is not a URL", "expected http:// or https://", file=what.url)
    return what


def _file_name(url: str) -> str:
    try:
        name = urllib.parse.unquote(urllib.parse.urlsplit(url).path).rpartition("/")[2]
    except ValueError:
        raise DataError("is not a valid URL", "check the address", file=url) from None
    if not name or name.startswith(".") or "\0" in name:
        raise DataError("has no file name", "expected a URL that ends with a file name", file=url)
    return name


def _difference(file: Path, found: Download, size: int | None, progress: Progress | None) -> str:
    """Difference between a file and its published size and checksums; empty if there is none."""
    with reading(str(file)):
        length = file.stat().st_size
        if size is not None and length != size:
            return f"it has {length:,} bytes, expected {size:,}"
        published = {name: value for name, value in (("md5", found.md5), ("sha256", found.sha256)) if value}
        name = f"verifying {file.name.removesuffix('.part')}"
        report = None if progress is None else lambda done: progress(name, done, length)
        digests = file_digests(file, *published, progress=report)
    for (name, expected), digest in zip(published.items(), digests, strict=True):
        if digest != expected.lower():
            return f"{name} mismatch: {digest}, expected {expected}"
    return ""
