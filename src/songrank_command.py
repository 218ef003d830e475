"""Entry point of the ``songrank`` command, outside the package, so that it sees Ctrl-C before anything is imported.

Ctrl-C during that import ends with one line, as later, and without a traceback.
"""

import os
import signal
from types import FrameType
from typing import NoReturn


def main() -> NoReturn:
    """Import the command, and run it."""
    heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # and not ignored, as behind a script's `&`
    if heard:
        signal.signal(signal.SIGINT, _leave)
    from songrank.cli.main import main as run

    if heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """At once: nothing was begun, and an import that is broken off may be caught half-way."""
    os.write(2, b"stopped before anything was begun\n")
    os._exit(128 + number)
