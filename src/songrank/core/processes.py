"""The processes of a job: those of torch.distributed, or one process alone.

Commands join the process group that torchrun, Ray Train or Spark's TorchDistributor describes in the environment, or
the one that is already initialised. Decisions that must be the same everywhere (stop, save, best, diverged) go through
one :class:`Processes`; a single process answers at once.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any, NoReturn, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from songrank.core.errors import ReportedError, UserError, first_line
from songrank.core.launch import world_and_rank

TIMEOUT = 600.0
"""Seconds that a process waits for another one."""
_AGREED = "songrank_agreed"
T = TypeVar("T")


class LostProcessError(UserError):
    """Another process has ended, or cannot be reached."""

    exit_code = 1


@dataclass(frozen=True)
class Processes:
    """The processes that work together; by default one.

    >>> alone = Processes()
    >>> alone.any(False), alone.first(0.5), alone.gather(torch.ones(2)).tolist()
    (False, 0.5, [1.0, 1.0])
    """

    rank: int = 0
    """The number of this process, from 0."""
    world: int = 1
    """The number of processes."""
    backend: str = ""
    """``"nccl"`` or ``"gloo"``; empty for a single process."""

    @property
    def is_first(self) -> bool:
        """Whether this process writes shared files and prints."""
        return self.rank == 0

    @property
    def recordable(self) -> bool:
        """Whether a sum over the processes can be recorded in a CUDA graph."""
        return self.backend == "nccl"

    @property
    def device(self) -> torch.device:
        """The device of tensors that are exchanged."""
        return torch.device("cuda", torch.cuda.current_device()) if self.backend == "nccl" else torch.device("cpu")

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any process."""
        return flag if self.world == 1 else bool(self._reduced(float(flag), dist.ReduceOp.MAX))

    def all(self, flag: bool) -> bool:
        """Whether the flag is set on all processes."""
        return not self.any(not flag)

    def first(self, value: float) -> float:
        """The value of the first process."""
        if self.world == 1:
            return value
        told = torch.tensor([value], dtype=torch.float64, device=self.device)
        with _exchange():
            dist.broadcast(told, 0)
        return float(told)

    def copy_first(self, tensor: Tensor) -> Tensor:
        """The tensor of the first process, in place."""
        if self.world > 1:
            with _exchange():
                dist.broadcast(tensor, 0)
        return tensor

    def same(self, value: int) -> bool:
        """Whether all processes have the same number."""
        if self.world == 1:
            return True
        told = torch.tensor([value, -value], dtype=torch.int64, device=self.device)
        with _exchange():
            dist.all_reduce(told, op=dist.ReduceOp.MAX)
        return bool(told[0] == -told[1])

    def largest(self, value: float) -> float:
        """The largest value of all processes."""
        return value if self.world == 1 else self._reduced(value, dist.ReduceOp.MAX)

    def add(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over all processes, in place."""
        if self.world > 1:
            with _exchange():
                dist.all_reduce(tensor)
        return tensor

    def share(self, parts: Sequence[T]) -> Sequence[T]:
        """The parts of this process: a contiguous range; the numbers of parts differ by at most one.

        >>> Processes(rank=1, world=3).share(range(8))
        range(2, 5)
        """
        return parts[self.slice(len(parts))]

    def slice(self, count: int) -> slice:
        """The range of this process among ``count`` parts."""
        return slice(count * self.rank // self.world, count * (self.rank + 1) // self.world)

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all processes, in the order of their ranks; processes may have different numbers of rows."""
        if self.world == 1:
            return rows
        here = rows.to(self.device).contiguous()
        counts = [torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(self.world)]
        with _exchange():
            dist.all_gather(counts, torch.tensor([here.shape[0]], device=self.device))
        sizes = [int(count) for count in counts]
        padded = here.new_zeros(max(sizes), *here.shape[1:])
        padded[: here.shape[0]] = here
        parts = [torch.empty_like(padded) for _ in sizes]
        with _exchange():
            dist.all_gather(parts, padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)]).to(rows.device)

    def collect(self, rows: Tensor) -> Tensor | None:
        """The rows of all processes on the first one, in the order of their ranks; None on the others."""
        if self.world == 1:
            return rows
        here = rows.to(self.device).contiguous()
        sizes = self.gather(torch.tensor([here.shape[0]], device=self.device)).tolist()
        with _exchange():
            if not self.is_first:
                dist.send(here, 0)
                return None
            found = here.new_empty(sum(sizes), *here.shape[1:])
            parts = torch.split(found, sizes)
            parts[0].copy_(here)
            for rank in range(1, self.world):
                dist.recv(parts[rank], rank)
        return found.to(rows.device)

    def deal(self, rows: Tensor, own: Tensor) -> None:
        """Write the rows of the first process to ``own`` on each process, in the order of their ranks.

        The inverse of :meth:`collect`; ``rows`` of other processes are ignored.
        """
        if self.world == 1:
            own.copy_(rows)
            return
        sizes = self.gather(torch.tensor([own.shape[0]], device=self.device)).tolist()
        with _exchange():
            if self.is_first:
                parts = torch.split(rows.to(self.device), sizes)
                for rank in range(1, self.world):
                    dist.send(parts[rank].contiguous(), rank)
                own.copy_(parts[0])
            else:
                here = torch.empty_like(own, device=self.device)
                dist.recv(here, 0)
                own.copy_(here)

    def texts(self, text: str) -> list[str]:
        """The texts of all processes, by rank."""
        if self.world == 1:
            return [text]
        own = torch.tensor(list(text.encode()), dtype=torch.uint8)
        size = torch.tensor([own.shape[0]])
        sizes = self.gather(size).tolist()
        return [bytes(part.tolist()).decode() for part in torch.split(self.gather(own), sizes)]

    def wait(self) -> None:
        """Wait for all processes."""
        if self.world > 1:
            with _exchange():
                dist.barrier()

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """A block of work that all processes must complete: an error on one of them is raised by all, at its end.

        The first process raises its own error, or a ``UserError`` that names the process that failed; the others raise
        a ``ReportedError``, which is not printed, or their own error if it is not one of the user. Blocks may be
        nested. Inside, processes may only communicate directly after an inner block, so that none waits in vain for
        one that failed.

        >>> with Processes().agreed():
        ...     pass
        """
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            if self.world == 1 or isinstance(error, LostProcessError):
                raise
            if _is_agreed(error):
                self._raise_quietly(error)
            failure = error
        if self.world > 1 and self.any(failure is not None):
            self._raise(failure)

    def _raise(self, failure: Exception | None) -> NoReturn:
        """Raise the first failure of all processes."""
        told = ""
        if isinstance(failure, UserError):
            told = json.dumps([str(failure), failure.exit_code])
        elif failure is not None:
            told = json.dumps([f"{type(failure).__name__}: {first_line(failure)}", 1])
        rank, (text, code) = next((at, json.loads(one)) for at, one in enumerate(self.texts(told)) if one)
        error: Exception
        if failure is None or (isinstance(failure, UserError) and not self.is_first):
            error = UserError(f"process {rank}: {text}")
            error.exit_code = code
        else:
            error = failure
        setattr(error, _AGREED, True)
        self._raise_quietly(error)

    def _raise_quietly(self, error: Exception) -> NoReturn:
        """Raise an error of which all processes know; the first one prints it if it is one of the user."""
        if isinstance(error, UserError):
            error = self.told(error)
        if isinstance(error, ReportedError):
            raise error from None
        raise error

    def told(self, error: UserError) -> UserError:
        """The error to raise where all processes raise the same one: only the first prints it.

        >>> Processes(rank=1, world=2).told(UserError("gamma is 2"))
        ReportedError('gamma is 2')
        """
        told = error if self.is_first else ReportedError(str(error))
        told.exit_code = error.exit_code
        setattr(told, _AGREED, True)
        return told

    def _reduced(self, value: float, how: "dist.ReduceOp.RedOpType") -> float:
        told = torch.tensor([value], dtype=torch.float64, device=self.device)
        with _exchange():
            dist.all_reduce(told, op=how)
        return float(told)


def _is_agreed(error: BaseException | None) -> bool:
    """Whether all processes know of an error, or of the one from which it follows."""
    while error is not None:
        if getattr(error, _AGREED, False) or isinstance(error, LostProcessError):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def _exchange() -> Iterator[None]:
    """Turn an error of communication into one line."""
    try:
        yield
    except RuntimeError as error:
        what = f"another process has ended or cannot be reached ({first_line(error)})"
        raise LostProcessError(f"{what}; see its message, and start all processes again") from error


def _store(timeout: float) -> dict[str, Any]:
    """The store of torchrun's agent, with a prefix: a restart must not find the addresses of ended processes in it."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return {}
    world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    wait = timedelta(seconds=timeout)
    store = dist.TCPStore(*place, world, is_master=False, timeout=wait)  # type: ignore[attr-defined]
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    own = dist.PrefixStore(f"songrank/{attempt}", store)  # type: ignore[attr-defined]
    return {"store": own, "world_size": world, "rank": rank}


ALONE = Processes()


def processes() -> Processes:
    """The processes of the initialised process group; one if there is none."""
    if not (dist.is_available() and dist.is_initialized()):
        return ALONE
    return Processes(dist.get_rank(), dist.get_world_size(), dist.get_backend())


@contextmanager
def joined(device: str = "auto", *, nccl: bool = True, timeout: float = TIMEOUT) -> Iterator[Processes]:
    """Join the process group of the environment for the time of a command.

    An initialised group is used and left as it is. Otherwise ``WORLD_SIZE``, ``RANK``, ``MASTER_ADDR`` and
    ``MASTER_PORT``, as torchrun sets them, describe the group: NCCL for GPUs, each process with the GPU ``LOCAL_RANK``,
    else gloo. Without them, there is one process.

    Args:
        device: device of the command; ``"cpu"`` needs no GPU.
        nccl: use NCCL for GPUs. Commands that exchange little use gloo, which notices at once if a process ends.
        timeout: seconds that a process waits for another one.

    >>> with joined("cpu") as own:
    ...     own.world
    1
    """
    if (dist.is_available() and dist.is_initialized()) or world_and_rank()[0] <= 1:
        yield processes()
        return
    if not dist.is_available():
        raise UserError("this torch has no torch.distributed, but WORLD_SIZE is above 1; start one process")
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise UserError(f"WORLD_SIZE is above 1, but {missing[0]} is not set; start the command with torchrun")
    local, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    own_gpu = device != "cpu" and int(os.environ.get("LOCAL_WORLD_SIZE", "1")) <= gpus
    if own_gpu:
        torch.cuda.set_device(local)
    backend = "nccl" if nccl and own_gpu and dist.is_nccl_available() else "gloo"
    with _exchange():
        dist.init_process_group(backend, timeout=timedelta(seconds=timeout), **_store(timeout))
    try:
        yield processes()
    finally:
        dist.destroy_process_group()


def balanced_ranges(sizes: Tensor, parts: int) -> list[tuple[int, int]]:
    """Contiguous ranges of queries with nearly equal sums of ``sizes``, one per process; some may be empty.

    >>> balanced_ranges(torch.tensor([5, 1, 1, 1, 4]), 3)
    [(0, 1), (1, 4), (4, 5)]
    """
    ends = sizes.to(torch.int64).cumsum(0)
    total = int(ends[-1]) if ends.numel() else 0
    # A query belongs to the part in which its middle lies.
    middle = 2 * ends - sizes.to(torch.int64)
    cuts = [int(torch.searchsorted(middle, 2 * total * part / parts)) for part in range(1, parts)]
    bounds: Sequence[int] = [0, *cuts, int(sizes.shape[0])]
    return list(pairwise(bounds))
