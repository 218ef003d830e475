"""Human-readable JSON files."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from songrank.core.errors import DataError, first_line
from songrank.core.limits import JSON_BYTES
from songrank.io.files import read_whole, sha256, write_whole

CHECKSUM = "checksum"
"""Last entry of a JSON object that :func:`write_json` has written: SHA-256 of the other entries."""


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Replace a file atomically by an indented JSON object with a checksum."""
    write_whole(path, json_bytes(content))


def json_bytes(content: Mapping[str, object]) -> bytes:
    """An indented JSON object with a checksum, which :func:`read_json` verifies."""
    text = json.dumps({**content, CHECKSUM: _checksum(json.loads(json.dumps(content)))}, indent=2, ensure_ascii=False)
    # File names may contain any bytes; the output is identical on every system.
    return f"{text}\n".encode(errors="backslashreplace")


def _checksum(content: Mapping[str, object]) -> str:
    """SHA-256 of the values, whatever their order and the spaces between them."""
    return sha256(json.dumps(content, sort_keys=True))


def read_json(path: Path, fix: str = "regenerate the file", missing: str | None = None) -> dict[str, Any]:
    """Read a JSON object; raise a ``DataError`` with the remedy ``fix``, or ``missing`` if the file does not exist.

    A checksum is verified and left out; a file without one was written by an earlier version or by another tool.
    """
    try:
        content = json.loads(read_whole(path, JSON_BYTES).decode("utf-8"))
    except FileNotFoundError:
        raise DataError("is missing", missing or fix, file=str(path)) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not valid JSON ({first_line(error)})", fix, file=str(path)) from None
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", "check path and permissions", file=str(path)) from None
    if not isinstance(content, dict):
        raise DataError("is not a JSON object", fix, file=str(path))
    last = next(reversed(content), "")
    renamed = len(last) == len(CHECKSUM) and sum(a != b for a, b in zip(last, CHECKSUM, strict=True)) == 1
    if renamed or (CHECKSUM in content and content.pop(CHECKSUM) != _checksum(content)):
        raise DataError("is damaged or was edited (checksum mismatch)", fix, file=str(path))
    return content


def plain(content: Any) -> Any:
    """Replace NaN and infinity by None."""
    if isinstance(content, dict):
        return {key: plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
