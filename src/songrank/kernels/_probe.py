"""A minimal kernel to test whether Triton works."""

import torch
import triton
import triton.language as tl


@triton.jit
def _one(target):
    tl.store(target, 1)


def answers() -> bool:
    """Compile and run a kernel on the current GPU."""
    found = torch.zeros(1, dtype=torch.int32, device="cuda")
    _one[(1,)](found)
    return bool(found.item())
