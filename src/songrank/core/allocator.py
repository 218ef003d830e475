"""glibc's memory allocator: keeping freed memory makes training on a CPU up to half as fast again."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
BLOCK, KEPT = 32 * 2**20, 2**30
"""Bytes: blocks up to ``BLOCK``, glibc's maximum, come from the heap, which keeps up to ``KEPT`` of free memory."""


def keep_freed_memory() -> bool:
    """Ask glibc to keep freed memory; True if it will.

    By default, glibc returns tensors of about 20 MB to the system after each step, and page faults on new memory take
    a third or more of a NeuMF step (docs/performance.md). The setting affects the whole process, so only the
    ``songrank`` command makes it; your own training process may call it, too.

    >>> keep_freed_memory() in (True, False)                     # False with another C library
    True
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, BLOCK)) and bool(mallopt(_M_TRIM_THRESHOLD, KEPT))
