"""Worker processes, which end with the process that started them."""

import multiprocessing
import os
import select
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import wait as wait_for_any
from typing import TypeVar

import torch

from songrank.core.allocator import keep_freed_memory
from songrank.core.errors import UserError

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class Workers:
    """Run pieces of work in parallel processes, or one after the other in this process.

    Processes start with the first piece that needs them and are reused, since a start takes seconds. If an exception
    leaves the ``with`` statement, running processes are killed.

    Args:
        jobs: number of parallel pieces; 1 for this process only.
        threads: threads per process; by default an equal share of the cores.

    >>> list(Workers(1).do([3, 1], lambda piece: piece + 1))
    [(3, 4), (1, 2)]
    """

    def __init__(self, jobs: int = 1, threads: int | None = None) -> None:
        self.jobs, self.threads = jobs, threads or max(1, cores() // jobs)
        self._pool: ProcessPoolExecutor | None = None
        self._stopped = self._deferred = False
        self._others = {child.pid for child in multiprocessing.active_children()}

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is None:
            return
        if kind is not None:
            own = [child for child in multiprocessing.active_children() if child.pid not in self._others]
            for child in own:
                child.terminate()
            for child in own:  # no process writes after this returns
                child.join(10)
                child.kill()  # no effect on processes that have ended
                child.join()
        self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def stop(self) -> None:
        """Raise KeyboardInterrupt, from a signal handler: at once, or where :meth:`do` holds no lock of the pool."""
        self._stopped = True
        if not self._deferred:
            raise KeyboardInterrupt
        self._ring()

    def _ring(self, future: object = None) -> None:
        """Wake the wait for results."""
        with suppress(OSError):  # full of earlier rings, or closed
            self._bell.send(b"x")

    def _wait(self) -> None:
        """Wait for a result or a signal. Unlike a wait of ``concurrent.futures``, a signal handler may run in it."""
        select.select([self._wake], [], [])
        self._wake.recv(4096)

    def do(
        self,
        pieces: Sequence[T],
        work: Callable[[T], R],
        begun: Callable[[T], None] = lambda piece: None,
        more: Callable[[], Sequence[T]] = lambda: (),
    ) -> Iterator[tuple[T, R]]:
        """Run pieces of work, and yield them with their results as they finish.

        After an error no piece starts; the error is raised once the running pieces have ended.

        Args:
            pieces: pieces of work in order.
            work: function of a piece; both are sent to other processes.
            begun: called with each piece before it starts.
            more: called for further pieces when none is waiting, so that they can depend on finished ones.
        """
        waiting = deque(pieces)
        if self.jobs > 1:
            yield from self._in_processes(waiting, work, begun, more)
            return
        while True:
            if not waiting:
                waiting.extend(more())
            if not waiting:
                return
            piece = waiting.popleft()
            begun(piece)
            yield piece, work(piece)

    def _in_processes(
        self, waiting: deque[T], work: Callable[[T], R], begun: Callable[[T], None], more: Callable[[], Sequence[T]]
    ) -> Iterator[tuple[T, R]]:
        self._wake, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        self._deferred = True
        try:
            yield from self._results({}, waiting, work, begun, more)
        finally:
            self._deferred = False
            self._wake.close()
            self._bell.close()

    def _results(
        self,
        running: "dict[Future[R], T]",
        waiting: deque[T],
        work: Callable[[T], R],
        begun: Callable[[T], None],
        more: Callable[[], Sequence[T]],
    ) -> Iterator[tuple[T, R]]:
        failure: BaseException | None = None
        while True:
            while failure is None and len(running) < self.jobs:
                if not waiting:
                    waiting.extend(more())
                if not waiting:
                    break
                piece = waiting.popleft()
                begun(piece)
                future = self._submit(work, piece)
                future.add_done_callback(self._ring)
                running[future] = piece
            if self._stopped:
                raise KeyboardInterrupt
            if not running:
                break
            ended = [future for future in running if future.done()]
            if not ended:
                self._wait()
            for future in ended:
                piece, error = running.pop(future), future.exception()
                if error is None:
                    result = future.result()
                    self._deferred = False
                    yield piece, result
                    self._deferred = True
                failure = failure or error
        if isinstance(failure, BrokenProcessPool):
            raise UserError("a process ended abruptly, perhaps out of memory; run the same command with fewer --jobs")
        if failure is not None:
            raise failure

    def _submit(self, work: Callable[[T], R], piece: T) -> "Future[R]":
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.jobs, context, _begin_worker, (self.threads,))
            resource_tracker.ensure_running()  # otherwise the first process starts it, which unblocks signals
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited by a process that starts now
        try:
            return self._pool.submit(work, piece)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _begin_worker(threads: int) -> None:
    """Use a share of the cores, and exit when the parent has ended; the parent handles Ctrl-C."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(threads))
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait_for_any([sentinel])
    os._exit(1)
