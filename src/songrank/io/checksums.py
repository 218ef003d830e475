"""Checksums of files: what a description on disk vouches for."""

import hashlib
from pathlib import Path
from typing import Any

from songrank.core.errors import DataError


def check_sha256(file: Path, expected: Any, damaged: str, fix: str) -> None:
    """Raise unless the file has this SHA-256 checksum; ``damaged`` says what is wrong otherwise."""
    try:
        with file.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", fix, file=str(file)) from None
    if found != expected:
        raise DataError(damaged, fix, file=str(file))
