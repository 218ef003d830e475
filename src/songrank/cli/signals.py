"""Signals that ask a long job to stop in good order; a system need not have all of them."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def known_signals(*names: str) -> list[int]:
    """The numbers of those of these signals that this system has."""
    return [int(getattr(signal, name)) for name in names if name in vars(signal)]


@contextmanager
def stoppable(stop: Callable[[], None]) -> Iterator[list[int]]:
    """SIGTERM and Ctrl-C (and Ctrl-Break) call ``stop``; a second Ctrl-C ends at once, without a checkpoint."""
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)
        stop()

    before = {number: signal.signal(number, handle) for number in known_signals("SIGINT", "SIGTERM", "SIGBREAK")}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
