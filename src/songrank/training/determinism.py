"""The same bits from the same seed, on a GPU too: sums in one order, always the same."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from songrank.errors import UserError

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # without which cuBLAS promises nothing, and torch refuses its products
_NO_FORM = " does not have a deterministic implementation"


@contextmanager
def same_bits(wanted: bool = True) -> Iterator[None]:
    """Within it torch takes deterministic algorithms alone, and ours go the plain way where a kernel would not be one.

    What has no such algorithm is one line. Unless ``wanted`` nothing is touched, so that what the process has set for
    itself holds.

    >>> with same_bits():
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
    os.environ.setdefault(_WORKSPACE, ":4096:8")
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


def _told(text: str) -> UserError | None:
    """One line for what torch says of determinism; None for any other error."""
    if _NO_FORM in text:
        what = text.partition(_NO_FORM)[0].split("\n")[-1]
        return UserError(f"deterministic is true, and torch has no deterministic {what} on this GPU: say false")
    if _WORKSPACE in text:
        return UserError(f"deterministic is true, and this process has used cuBLAS before: set {_WORKSPACE}=:4096:8")
    return None
