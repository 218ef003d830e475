"""Signals that stop a long job cleanly; not every system has all of them."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def known_signals(*names: str) -> list[int]:
    """The numbers of these signals, without those that this system lacks."""
    return [int(getattr(signal, name)) for name in names if name in vars(signal)]


@contextmanager
def stoppable(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Call ``stop`` on SIGTERM, Ctrl-C and Ctrl-Break; a second Ctrl-C exits immediately, without a checkpoint."""
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
