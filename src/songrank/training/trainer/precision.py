"""In what precision a step's matrix products are made."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch

PRECISIONS = ("float32", "tf32", "bfloat16")


def mixed(precision: str, device: str) -> AbstractContextManager[None]:
    """Within it, products are made in bfloat16 if that is the precision."""
    return torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16", cache_enabled=False)


@contextmanager
def products(precision: str) -> Iterator[None]:
    """Within it, a GPU may round the inputs of float32 products to 10 bits if that is the precision; gradients' too.

    With another precision nothing is touched, so that what the process has set for itself holds.
    """
    if precision != "tf32":
        yield
        return
    settings = torch.backends.cuda.matmul
    # torch 2.9 has a new name for it, and takes offence at who uses both.
    name, value = ("fp32_precision", "tf32") if hasattr(settings, "fp32_precision") else ("allow_tf32", True)
    before = getattr(settings, name)
    setattr(settings, name, value)
    try:
        yield
    finally:
        setattr(settings, name, before)
