"""Settings of the glibc allocator: retaining freed memory speeds up CPU training by up to 50 %."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
BLOCK, KEPT = 32 * 2**20, 2**30
"""In bytes: blocks up to ``BLOCK``, glibc's maximum, are heap-allocated; the heap retains up to ``KEPT`` free bytes."""


def keep_freed_memory() -> bool:
    """Make glibc retain freed memory; return whether it does.

    By default, glibc returns tensors of about 20 MB to the system after each step, and page faults on new memory take
    a third or more of a NeuMF step (docs/performance.md). The setting affects the whole process, so only the
    ``songrank`` command applies it; call this function in your own training process.

    >>> keep_freed_memory() in (True, False)                     # False with other C libraries
    True
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, BLOCK)) and bool(mallopt(_M_TRIM_THRESHOLD, KEPT))
