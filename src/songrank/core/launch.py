"""What the launcher of this process says about its job; without torch, for the command line and estimators."""

import os
import sys
from typing import Any

from songrank.core.errors import ReportedError, UserError


def world_and_rank() -> tuple[int, int]:
    """The number of processes of the job, and the number of this one: of the initialised process group, or as torchrun
    sets ``WORLD_SIZE`` and ``RANK``.

    >>> world_and_rank()
    (1, 0)
    """
    dist: Any = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        return dist.get_world_size(), dist.get_rank()
    return _number("WORLD_SIZE", 1), _number("RANK", 0)


def is_first() -> bool:
    """Whether this process prints, also before it has joined the others.

    >>> is_first()
    True
    """
    return world_and_rank()[1] == 0


def _number(name: str, default: int) -> int:
    """A number of the environment."""
    text = os.environ.get(name, "")
    if text and not text.isdecimal():
        raise UserError(f"the environment variable {name} is {text!r}; expected a whole number")
    return int(text or default)


def need_one_process(what: str, instead: str, *, once: bool = False) -> None:
    """Raise if several processes have been started, since each of them would do the same work.

    Args:
        what: what needs one process.
        instead: what to do.
        once: all processes raise; only the error of the first one is to be printed.

    >>> need_one_process("songrank tune", "start it without torchrun")
    """
    world, rank = world_and_rank()
    if world > 1:
        kind = ReportedError if once and rank else UserError
        raise kind(f"{what} runs in one process, not {world}; {instead}")
