"""Signals that stop a long job cleanly; not every system has all of them."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


def known_signals(*names: str) -> list[int]:
    """The numbers of these signals, without those that this system lacks, and SIGHUP only unless nohup ignores it."""
    known = [int(getattr(signal, name)) for name in names if name in vars(signal)]
    hung_up = getattr(signal, "SIGHUP", None)
    return [number for number in known if number != hung_up or signal.getsignal(number) != signal.SIG_IGN]


@contextmanager
def stoppable(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Call ``stop`` on SIGTERM, SIGHUP, Ctrl-C and Ctrl-Break; a second Ctrl-C exits at once, without a checkpoint."""
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)
        stop()

    before = {
        number: signal.signal(number, handle) for number in known_signals("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
