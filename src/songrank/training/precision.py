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

    >>> with products("tf32"):
    ...     torch.backends.cuda.matmul.allow_tf32
    True
    """
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32" or before
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
