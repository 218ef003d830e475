"""How the rows of speed.py are measured: medians after a warm-up, work without Python in between, peak memory."""

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
"""Steps in a row on a GPU, with one wait at the end, so that the host is not waited for in between."""

_GPU_WARM_UP = 10
_SLOW = 0.05  # seconds; steps above are timed one by one, and fewer of them
_SLOW_ROUNDS = 5


def milliseconds(
    steps: Mapping[str, Callable[[], object]], device: torch.device, rounds: int, warm_up: int = 2
) -> dict[str, float]:
    """Median milliseconds of each step: of chunks in a row on a GPU, of single steps that alternate on a CPU."""
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
    """Seconds that one of so many steps in a row takes."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(times):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / times


class Recorded:
    """The same work without Python in between: a replayed graph on a GPU, the work itself on a CPU.

    ``advance`` gives the work other inputs before each call, by writing into its tensors.
    """

    def __init__(
        self, work: Callable[[], object], device: torch.device, advance: Callable[[], object] = lambda: None
    ) -> None:
        self.work, self.advance = work, advance  # kept, since a graph does not keep the tensors that it works on
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
            print(f"cannot be recorded, launches are timed too: {str(error).splitlines()[0]}")
            return self.work
        return graph.replay

    def __call__(self) -> None:
        self.advance()
        self.run()


class Peak:
    """The most memory in use while a block runs, beyond what was in use at its start.

    On a GPU what torch has allocated; on a CPU resident memory, where Linux tells it, else ``bytes`` is None.
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
        """The peak in GB, less so many bytes."""
        return None if self.bytes is None else max(0.0, (self.bytes - less) / 1e9)


def _give_back() -> None:
    """Hand memory that was freed to the system, so that taking it again is seen."""
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
    """Bytes that are free."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info()[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
