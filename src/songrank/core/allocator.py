"""Memory that one step frees stays with the process for the next: on a CPU, training is half as fast again by it."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # glibc's malloc.h
BLOCK, KEPT = 32 * 2**20, 2**30
"""Bytes: a tensor of up to ``BLOCK``, the most that glibc's manual allows, takes freed memory again, and up to ``KEPT``
of what is free at the heap's end is not given back."""


def keep_freed_memory() -> bool:
    """Ask glibc to keep what is freed; True if it will.

    A step frees and asks again for tensors of some 20 MB each. Left to itself, glibc gives them back to the system
    every time, and the system hands out empty pages anew, one fault for each 4 KB, which is a third or more of a
    NeuMF step (docs/performance.md). It is a setting of the whole process, so the ``songrank`` command makes it, and no
    library call does; who trains in a process of their own may.

    >>> keep_freed_memory() in (True, False)                     # False where the C library is another one
    True
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, BLOCK)) and bool(mallopt(_M_TRIM_THRESHOLD, KEPT))
