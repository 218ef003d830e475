"""Verification of files by SHA-256, which hashes a large file once per change of its size, times or inode.

A verification is remembered in ``$XDG_CACHE_HOME/songrank/verified`` (by default in ``~/.cache``). What is malformed
there, or could be written by another user, is ignored; if nothing can be written, files are hashed at each opening.
``SONGRANK_VERIFY=always`` in the environment ignores all of it.
"""

import json
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from songrank.core.errors import DataError
from songrank.core.limits import STAMP_AGE, STAMP_BYTES, STAMPS
from songrank.io.files import WINDOWS, check_sha256, create, open_regular, process_mark, sha256

ALWAYS = "SONGRANK_VERIFY"
"""Environment variable; ``always`` verifies files at every opening."""
_SEAL = "\n# sha256: "
_STAMP_MODE = 0o600
_MOST_STAMP = 4096


def verify_file(file: Path, expected: Any, damaged: str, fix: str, *, always: bool | None = None) -> None:
    """Raise a ``DataError`` with message ``damaged`` unless the file has this SHA-256.

    Args:
        file: the file.
        expected: its SHA-256, hexadecimal.
        damaged: the problem if it differs.
        fix: the remedy.
        always: hash the file even if it was verified and is unchanged; by default as the environment says.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a"
    >>> _ = file.write_text("one")
    >>> verify_file(file, sha256("one"), "checksum mismatch", "copy it again")
    """
    always = os.environ.get(ALWAYS) == "always" if always is None else always
    before = _state(file, expected)
    small = before is None or before["bytes"] < STAMP_BYTES
    stamp = None if small else _stamp(file)
    if stamp is not None and not always and _read(stamp) == before:
        return
    check_sha256(file, expected, damaged, fix)
    if stamp is None or before is None or before != _state(file, expected):
        return
    if time.time() - max(before["modified"], before["changed"]) / 1e9 > STAMP_AGE:  # a later change has another time
        _write(stamp, before)


def seal(text: str) -> str:
    """Append a comment line with the SHA-256 of a text that ends with a newline. See :func:`check_seal`."""
    return f"{text.removesuffix(chr(10))}{_SEAL}{sha256(text)}\n"


def check_seal(text: str, file: str) -> None:
    r"""Raise if a text ends with a checksum of another text; one without a checksum passes.

    >>> check_seal(seal("seed: 0\n"), "config.yaml")
    """
    found = re.fullmatch(r"(.*)(.{11})([0-9a-f]{64})\n?", text, re.DOTALL)
    if found is None or sum(a != b for a, b in zip(found[2], _SEAL, strict=True)) > 1:
        return
    if found[2] != _SEAL or sha256(f"{found[1]}\n") != found[3]:
        fix = "restore it, or delete its last line to use it as it is"
        raise DataError("is damaged or was edited (checksum mismatch)", fix, file=file)


def _state(file: Path, expected: Any) -> dict[str, Any] | None:
    """What identifies the content of a file; None if the file cannot be used."""
    try:
        told = os.stat(file)
    except OSError:
        return None
    return {
        "sha256": str(expected),
        "device": told.st_dev,
        "inode": told.st_ino,
        "bytes": told.st_size,
        "modified": told.st_mtime_ns,
        "changed": told.st_ctime_ns,
    }


def _stamp(file: Path) -> Path | None:
    """The file that remembers the verification of ``file``; None without a home directory."""
    base = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("LOCALAPPDATA") if WINDOWS else None) or ""
    try:
        folder = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
        name = sha256(os.fsencode(os.path.realpath(file)))
    except (RuntimeError, OSError):
        return None
    return folder / "songrank" / "verified" / f"{name}.json"


def _read(stamp: Path) -> Any:
    """The content of a stamp; None if it is missing, malformed or not only of this user."""
    with suppress(OSError, ValueError, RecursionError), open_regular(stamp) as stream:
        told = os.fstat(stream.fileno())
        if WINDOWS or (told.st_uid == os.geteuid() and not told.st_mode & 0o022):
            return json.loads(stream.read(_MOST_STAMP))
    return None


def _write(stamp: Path, state: dict[str, Any]) -> None:
    """Write a stamp atomically, if that is possible."""
    new = stamp.with_name(process_mark())
    with suppress(OSError):
        stamp.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _forget_old(stamp.parent)
        try:
            with create(new, _STAMP_MODE) as stream:
                stream.write(json.dumps(state).encode())
            new.replace(stamp)
        except BaseException:
            with suppress(OSError):
                new.unlink()
            raise


def _forget_old(folder: Path) -> None:
    with os.scandir(folder) as entries:
        stamps = [entry.path for entry in entries]
    if len(stamps) >= STAMPS:
        with suppress(OSError):  # one was removed by another process
            for stamp in sorted(stamps, key=os.path.getmtime)[: len(stamps) // 2]:
                os.unlink(stamp)
