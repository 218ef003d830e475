"""Forked processes: threads of torch and polars do not survive a fork, and work that waits for them never ends."""

import os

from songrank.core.errors import UserError

_worked: int | None = None  # the process in which songrank first worked


def check_not_forked() -> None:
    """Note that songrank works in this process; raise if it was forked from one in which songrank worked before.

    Every fit, prediction, preparation and loading begins with it. A process that is forked before any of them, or
    started by the methods ``spawn`` and ``forkserver``, can do all of them.

    >>> check_not_forked()
    """
    global _worked
    if _worked is None:
        _worked = os.getpid()
    elif _worked != os.getpid():
        fix = "use the start method spawn or forkserver, as in multiprocessing.get_context('spawn')"
        raise UserError(f"songrank was used before this process was forked, and would wait forever for threads; {fix}")
