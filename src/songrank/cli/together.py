"""Commands that several processes run together, as torchrun starts them."""

from collections.abc import Iterator
from contextlib import contextmanager

from songrank.core.processes import Processes, joined

_LONGEST = 7 * 86_400.0
"""Seconds between exchanges. They are rare: processes with more work may take hours longer."""


@contextmanager
def together(device: str) -> Iterator[Processes]:
    """The processes of a command that evaluates or predicts: they exchange little, and fail together."""
    with joined(device, nccl=False, timeout=_LONGEST) as processes, processes.agreed():
        yield processes
