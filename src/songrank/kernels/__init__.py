"""Triton kernels for CUDA GPUs; they equal their torch twins up to rounding. :func:`plain` disables them."""

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
    """Context manager that disables kernels; no effect unless ``when``."""
    global _wanted
    before, _wanted = _wanted, _wanted and not when
    try:
        yield
    finally:
        _wanted = before


def on_device_of(tensor: Tensor) -> AbstractContextManager[None]:
    """Context manager that makes the tensor's GPU the current device."""
    return torch.cuda.device_of(tensor)


def usable(tensor: Tensor) -> bool:
    """Whether kernels are available and enabled for this tensor; not while compiling."""
    return not torch.compiler.is_compiling() and _wanted and tensor.is_cuda and installed()


@cache
def installed() -> bool:
    """Whether Triton is installed and works on this GPU; for example, it needs a C compiler."""
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        from songrank.kernels._probe import answers

        return answers()
    except Exception as error:  # kernels are optional, so any error disables them
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        warnings.warn(f"Triton is not usable ({reason}); continuing without kernels", stacklevel=2)
        return False
