"""Signals that ask a long job to stop in good order."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stoppable(stop: Callable[[], None]) -> Iterator[list[int]]:
    """SIGTERM and Ctrl-C call ``stop``; a second Ctrl-C ends at once, without a checkpoint of these last steps."""
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
