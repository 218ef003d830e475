"""The same bits from the same seed, on a GPU too: sums in one order, always the same."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from songrank.core.errors import UserError, shown

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # without which cuBLAS promises nothing, and torch refuses its products
_ORDERED = (":4096:8", ":16:8")
_NO_FORM = " does not have a deterministic implementation"


class NotDeterministicError(UserError):
    """What was asked for has no deterministic form here."""


@contextmanager
def deterministic_algorithms(wanted: bool = True) -> Iterator[None]:
    """Within it torch takes deterministic algorithms alone, and ours go the plain way where a kernel would not be one.

    What has no such algorithm is one line. Unless ``wanted`` nothing is touched, so that what the process has set for
    itself holds. These are settings of the process: threads share them, so it is for one trainer at a time.

    >>> with deterministic_algorithms():
    ...     torch.are_deterministic_algorithms_enabled()
    True
    >>> torch.are_deterministic_algorithms_enabled()
    False
    """
    if not wanted:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic
    filled, workspace = memory.fill_uninitialized_memory, os.environ.get(_WORKSPACE)
    if workspace is not None and workspace not in _ORDERED:
        what = f"deterministic is true, and {_WORKSPACE} is {shown(workspace)}"
        raise NotDeterministicError(f"{what}; expected {' or '.join(_ORDERED)}, or nothing")
    os.environ.setdefault(_WORKSPACE, _ORDERED[0])
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False  # nothing here reads what nobody wrote
    try:
        yield
    except RuntimeError as error:
        told = _told(str(error))
        if told is None:
            raise
        raise told from None
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        memory.fill_uninitialized_memory = filled
        if workspace is None:
            os.environ.pop(_WORKSPACE, None)


def _told(text: str) -> NotDeterministicError | None:
    """One line for what torch says of determinism; None for any other error."""
    if _NO_FORM in text:
        operation = text.partition(_NO_FORM)[0].rpartition("\n")[2]
        told = f"torch has no deterministic {operation} on this GPU: begin again with deterministic=false"
    elif _WORKSPACE in text:
        told = f"this process has used cuBLAS before: set {_WORKSPACE}={_ORDERED[0]} before Python starts"
    else:
        return None
    return NotDeterministicError(f"deterministic is true, and {told}")
