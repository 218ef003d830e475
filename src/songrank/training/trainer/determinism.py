"""Bit-exact results from the same seed on a GPU: sums in a fixed order."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from songrank.core.errors import UserError, shown

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # without it cuBLAS is not deterministic, and torch raises
_ORDERED = (":4096:8", ":16:8")
_NO_FORM = " does not have a deterministic implementation"


class NotDeterministicError(UserError):
    """An operation has no deterministic implementation on this device."""


@contextmanager
def deterministic_algorithms(wanted: bool = True) -> Iterator[None]:
    """Make torch and songrank's kernels deterministic inside the block; other operations raise a one-line error.

    Without ``wanted`` nothing changes. Threads share these settings: use it for one trainer at a time.
    """
    if not wanted:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic
    filled, workspace = memory.fill_uninitialized_memory, os.environ.get(_WORKSPACE)
    if workspace is not None and workspace not in _ORDERED:
        what = f"deterministic is true, but {_WORKSPACE} is {shown(workspace)}"
        raise NotDeterministicError(f"{what}; expected {' or '.join(_ORDERED)}, or unset")
    os.environ.setdefault(_WORKSPACE, _ORDERED[0])
    torch.use_deterministic_algorithms(True)
    memory.fill_uninitialized_memory = False  # nothing here reads uninitialised memory
    try:
        yield
    except RuntimeError as error:
        reason = _reason(str(error))
        if reason is None:
            raise
        raise NotDeterministicError(f"deterministic is true, but {reason}") from None
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        memory.fill_uninitialized_memory = filled
        if workspace is None:
            os.environ.pop(_WORKSPACE, None)


def _reason(text: str) -> str | None:
    if _NO_FORM in text:
        operation = text.partition(_NO_FORM)[0].rpartition("\n")[2]
        return f"torch has no deterministic {operation} on this GPU; start again with deterministic=false"
    if _WORKSPACE in text:
        return f"this process already used cuBLAS; set {_WORKSPACE}={_ORDERED[0]} before Python starts"
    return None
