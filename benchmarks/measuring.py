"""Measurements of speed.py: medians after a warm-up, work without Python overhead, peak memory."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import re
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

import torch
from timing import medians

CHUNK = 50
"""Consecutive steps on a GPU with one synchronisation at the end."""

_GPU_WARM_UP = 10
_SLOW = 0.05  # seconds; slower steps are timed one by one, with fewer repetitions
_SLOW_ROUNDS = 5


def milliseconds(
    steps: Mapping[str, Callable[[], object]], device: torch.device, rounds: int, warm_up: int = 2
) -> dict[str, float]:
    """Median milliseconds per step: of consecutive steps on a GPU, of alternating single steps on a CPU."""
    if device.type == "cpu":
        return medians(steps, rounds, warm_up)
    return {name: _in_chunks(step, rounds, warm_up) for name, step in steps.items()}


def _in_chunks(step: Callable[[], object], rounds: int, warm_up: int) -> float:
    for _ in range(_GPU_WARM_UP):
        step()
    if _seconds(step, 1) > _SLOW:
        return 1e3 * statistics.median(_seconds(step, 1) for _ in range(_SLOW_ROUNDS))
    for _ in range(warm_up):
        step()
    chunk = min(CHUNK, rounds)
    return 1e3 * statistics.median(_seconds(step, chunk) for _ in range(max(1, rounds // chunk)))


def _seconds(step: Callable[[], object], times: int) -> float:
    """Seconds per step over consecutive steps."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(times):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / times


class Recorded:
    """Work without Python overhead: a replayed CUDA graph on a GPU, the work itself on a CPU.

    ``advance`` writes new inputs into the tensors of the work before each call.
    """

    def __init__(
        self, work: Callable[[], object], device: torch.device, advance: Callable[[], object] = lambda: None
    ) -> None:
        self.work, self.advance = work, advance  # references, since a graph does not keep its tensors alive
        self.run = work
        if device.type == "cuda":
            self.run = self._record()

    def _record(self) -> Callable[[], object]:
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.work()
        except RuntimeError as error:
            torch.cuda.synchronize()
            print(f"cannot be captured, so times include launches: {str(error).splitlines()[0]}")
            return self.work
        return graph.replay

    def __call__(self) -> None:
        self.advance()
        self.run()


class Peak:
    """Peak memory of a block, beyond the memory in use at its start.

    On a GPU, the memory allocated by torch; on a CPU, resident memory on Linux, otherwise ``bytes`` is None.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.bytes: int | None = None

    def __enter__(self) -> Peak:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            self._before: int | None = torch.cuda.memory_allocated()
        else:
            _give_back()
            self._before = _resident("VmRSS") if _forget_peak() else None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        after = torch.cuda.max_memory_allocated() if self.device.type == "cuda" else _resident("VmHWM")
        if self._before is not None and after is not None:
            self.bytes = after - self._before

    def gigabytes(self, less: int = 0) -> float | None:
        """The peak in GB, minus ``less`` bytes."""
        return None if self.bytes is None else max(0.0, (self.bytes - less) / 1e9)


def _give_back() -> None:
    """Return freed memory to the system, so that new allocations are measured."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _forget_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _resident(name: str) -> int | None:
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else 1024 * int(found[1])


def room(device: torch.device) -> int:
    """Free bytes."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info()[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
