"""Memory of this machine, and sizes in bytes as text."""

import re
from pathlib import Path

from songrank.core.errors import UserError

LEAST_MEMORY = 1 << 30
"""The least limit of memory for work on disk."""
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_UNITS |= {f"{unit}I": 1024**power for power, unit in enumerate("KMGT", 1)}
_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container


def free_memory() -> int | None:
    """Bytes available without swapping, where the system reports it (Linux); None elsewhere."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+)", text, re.MULTILINE)
    if found is None:
        return None
    free = int(found[1]) * 1024
    try:
        limit = _LIMIT.read_text(encoding="ascii").strip()
    except OSError:
        return free
    return min(free, int(limit)) if limit.isdigit() else free


def read_bytes(name: str, value: int | str) -> int:
    """A size as bytes; ``name`` is the option in errors.

    >>> read_bytes("memory_limit", "4GB"), read_bytes("memory_limit", "1.5 GiB"), read_bytes("memory_limit", 2048)
    (4000000000, 1610612736, 2048)
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?I?)B?", str(value).strip().upper())
    if found is None or found[2] not in _UNITS:
        raise UserError(f"{name} is {str(value)!r}; expected a size such as 4GB or 512MiB")
    return int(float(found[1]) * _UNITS[found[2]])
