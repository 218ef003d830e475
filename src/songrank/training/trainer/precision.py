"""Precision of the matrix products in a step."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

PRECISIONS = ("float32", "tf32", "bfloat16")


def mixed(precision: str, device: str) -> AbstractContextManager[None]:
    """Compute products in bfloat16 inside the block, if that is the precision."""
    return torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16", cache_enabled=False)


@contextmanager
def products(precision: str) -> Iterator[None]:
    """With ``"tf32"``, a GPU may round inputs of float32 products to 10 bits; other precisions change nothing."""
    if precision != "tf32":
        yield
        return
    settings = torch.backends.cuda.matmul
    # torch 2.9 renamed it, and raises where both names are used
    name, value = ("fp32_precision", "tf32") if hasattr(settings, "fp32_precision") else ("allow_tf32", True)
    before = getattr(settings, name)
    setattr(settings, name, value)
    try:
        yield
    finally:
        setattr(settings, name, before)
