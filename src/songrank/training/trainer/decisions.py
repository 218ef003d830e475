"""What the processes of a training run decide together: whether to stop, and whether the time is over."""

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from songrank.core.processes import TIMEOUT, LostProcessError

_REPLAYS = 16
"""Replays of a CUDA graph after which the host reads decisions."""


class Decisions:
    """What the processes decide together while they train: whether to stop, and whether the time is over.

    A step carries the decisions of all processes with its gradients. Replays of a CUDA graph carry them on the device;
    the host reads them after a fixed number of replays, so that it never waits for the last ones.

    >>> decisions = Decisions()
    >>> decisions.tell(True, False)
    (False, False)
    >>> decisions.decide([True, False])
    >>> decisions.tell(True, False)
    (True, False)
    """

    def __init__(self) -> None:
        self.here = [False, False]
        """Decisions of this process."""
        self.all = [False, False]
        """Whether any process has decided so, as far as all of them know."""
        self.given = self._answers = self._copy = torch.zeros(2)
        self._on_device = False
        self._copied: torch.cuda.Event | None = None
        self._replays = 0

    def tell(self, stop: bool, late: bool) -> tuple[bool, bool]:
        """Tell the other processes with the next step; return the decisions that all processes know."""
        if self.here != [stop, late]:
            self.here = [stop, late]
            if self._on_device:
                self.given.copy_(torch.tensor(self.here))
        return self.all[0], self.all[1]

    def decide(self, found: Sequence[bool]) -> None:
        """Add decisions of which all processes know."""
        self.all = [one or other for one, other in zip(self.all, found, strict=True)]

    def keep_on(self, device: torch.device) -> None:
        """Also keep the decisions in tensors of this device, for a step that is recorded."""
        if not self._on_device:
            self.given = torch.tensor(self.here, dtype=torch.float32, device=device)
            self._answers = torch.zeros_like(self.given)
            self._copy = torch.zeros(2, pin_memory=device.type == "cuda")
            self._on_device = True

    def answered(self, sums: Tensor) -> None:
        """Keep what a step inside the graph has exchanged, on the device."""
        self._answers.copy_(torch.maximum(self._answers, sums.to(self._answers.dtype)))

    def replayed(self) -> None:
        """Count a replay; now and then read the decisions of earlier ones."""
        self._replays += 1
        if self._replays % _REPLAYS:
            return
        if self._replays > _REPLAYS:
            self._wait()
            self.decide((self._copy > 0).tolist())
        self._copy.copy_(self._answers, non_blocking=True)
        if self._answers.is_cuda:
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._copied.record()

    def _wait(self) -> None:
        """Wait for the device, as long as a process waits for another one."""
        end = time.monotonic() + TIMEOUT
        while self._copied is not None and not self._copied.query():  # type: ignore[no-untyped-call]
            if time.monotonic() > end:
                raise LostProcessError("another process has not answered for too long; start all processes again")
            time.sleep(0.001)
