"""Torch's global random numbers, from which weights and dropout are drawn: one training at a time uses them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def own_random_numbers() -> Iterator[None]:
    """Use the global random state alone among the threads that train; the state of the caller is restored.

    Other threads that draw from or seed the global generator meanwhile change the result of the training.

    >>> before = torch.get_rng_state()
    >>> with own_random_numbers():
    ...     _ = torch.manual_seed(0)
    >>> torch.equal(torch.get_rng_state(), before)
    True
    """
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    with _ONE_AT_A_TIME, torch.random.fork_rng(devices):
        yield
