"""Triton kernels for a GPU: the same numbers as the plain torch code beside which each of them is used, to rounding.

They are used wherever they can be: on a GPU, where Triton is installed. :func:`plain` turns them off.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

import torch
from torch import Tensor

_wanted = True


@contextmanager
def plain(when: bool = True) -> Iterator[None]:
    """Within it everything goes the plain way, or nothing changes unless ``when``."""
    global _wanted
    before, _wanted = _wanted, _wanted and not when
    try:
        yield
    finally:
        _wanted = before


def on_device_of(tensor: Tensor) -> AbstractContextManager[None]:
    """Within it the GPU that holds the tensor is the current one: kernels and graphs go to that."""
    return torch.cuda.device_of(tensor)


def usable(tensor: Tensor) -> bool:
    """Whether kernels can and may work on this tensor; a compiler is left to its own."""
    return not torch.compiler.is_compiling() and _wanted and tensor.is_cuda and installed()


@cache
def installed() -> bool:
    """Whether Triton is there and runs on this GPU; it needs a C compiler, for one."""
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        from songrank.kernels._probe import answers

        return answers()
    except Exception as error:  # whatever it is, everything works without
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        warnings.warn(f"Triton does not run here ({reason}): going on without kernels", stacklevel=2)
        return False
