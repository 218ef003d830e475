"""Triton kernels for a GPU: the same numbers as the plain torch code beside which each of them is used, to rounding.

They are used wherever they can be: on a GPU, where Triton is installed. :func:`plain` turns them off.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

_wanted = True


@contextmanager
def plain(wanted: bool = True) -> Iterator[None]:
    """Within it everything goes the plain way, unless it is not ``wanted``."""
    global _wanted
    before, _wanted = _wanted, _wanted and not wanted
    try:
        yield
    finally:
        _wanted = before


def usable(tensor: Tensor) -> bool:
    """Whether kernels can and may work on this tensor; a compiler is left to its own."""
    return _wanted and tensor.is_cuda and installed() and not torch.compiler.is_compiling()


@cache
def installed() -> bool:
    """Whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None
