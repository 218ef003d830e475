"""Triton kernels for a GPU with Triton installed: the numbers of their torch twins, to rounding. :func:`plain` turns
them off.
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
    """Within it kernels are off; no effect unless ``when``."""
    global _wanted
    before, _wanted = _wanted, _wanted and not when
    try:
        yield
    finally:
        _wanted = before


def on_device_of(tensor: Tensor) -> AbstractContextManager[None]:
    """Within it the tensor's GPU is the current one."""
    return torch.cuda.device_of(tensor)


def usable(tensor: Tensor) -> bool:
    """Whether kernels can and may work on this tensor; not while compiling."""
    return not torch.compiler.is_compiling() and _wanted and tensor.is_cuda and installed()


@cache
def installed() -> bool:
    """Whether Triton is installed and runs on this GPU; it needs a C compiler, for example."""
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        from songrank.kernels._probe import answers

        return answers()
    except Exception as error:  # whatever it is, everything works without
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        warnings.warn(f"Triton does not run here ({reason}): going on without kernels", stacklevel=2)
        return False
