"""Human-readable JSON files."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from songrank.core.errors import DataError, first_line
from songrank.io.files import write_whole


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Replace a file atomically by an indented JSON object."""
    # File names may contain any bytes; the output is identical on every system.
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_whole(path, text.encode(errors="backslashreplace"))


def read_json(path: Path, fix: str = "regenerate the file", missing: str | None = None) -> dict[str, Any]:
    """Read a JSON object; raise a ``DataError`` with the remedy ``fix``, or ``missing`` if the file does not exist."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError("is missing", missing or fix, file=str(path)) from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not valid JSON ({first_line(error)})", fix, file=str(path)) from None
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", "check path and permissions", file=str(path)) from None
    if not isinstance(content, dict):
        raise DataError("is not a JSON object", fix, file=str(path))
    return content


def plain(content: Any) -> Any:
    """Replace NaN and infinity by None."""
    if isinstance(content, dict):
        return {key: plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
