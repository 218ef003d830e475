"""Where the ``songrank`` command begins: outside the package, which takes a second to import, torch and all.

Whoever presses Ctrl-C in that second gets the same answer as later on, and no traceback.
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
