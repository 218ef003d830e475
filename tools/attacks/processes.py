"""Several processes of one training, as torchrun starts them: some are killed, or parts of a checkpoint damaged."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist

from attacks.kills import TRAINED, Kill, training, writing
from attacks.mutations import flip
from attacks.tries import BrokenPromiseError, Done, judged, start

WORLD = 2
_GRACE = 3.0  # seconds between the death of a process, SIGTERM and SIGKILL for the others; torchrun gives 30


def try_processes(random: random.Random, place: Path, base: Path) -> None:
    """Killed processes and damaged parts of a checkpoint: refused, or resumed to the weights without interruption."""
    how = random.choices((_kill_one, _damage, _kill_under_torchrun), (6, 6, 1))[0]
    how(random, place, base)


def jobs(place: Path, works: Sequence[Callable[[], None]], seconds: float = 60.0) -> list[Done]:
    """Run a job with one process per element of ``works``; after the death of one, the others are ended."""
    reading, writing_end = os.pipe()
    store = os.fork()
    if store == 0:
        served = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
        os.write(writing_end, f"{served.port}\n".encode())
        while True:
            signal.pause()
    with os.fdopen(reading) as stream:
        port = stream.readline().strip()
    os.close(writing_end)
    shared = {"WORLD_SIZE": str(len(works)), "LOCAL_WORLD_SIZE": str(len(works)), "MASTER_ADDR": "127.0.0.1"}
    shared |= {"MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "True"}
    started = [
        start(work, place, seconds, RANK=str(rank), LOCAL_RANK=str(rank), **shared) for rank, work in enumerate(works)
    ]
    running, died = dict(enumerate(started)), 0.0
    try:
        while running:
            for rank, process in list(running.items()):
                if os.waitid(os.P_PID, process.process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    del running[rank]
                    died = died or time.monotonic()
            if died and time.monotonic() > died + _GRACE:
                for process in running.values():
                    late = time.monotonic() > died + 2 * _GRACE
                    os.kill(process.process, signal.SIGKILL if late else signal.SIGTERM)
            if time.monotonic() > started[0].until:
                raise BrokenPromiseError("a job hangs")
            time.sleep(0.01)
    finally:
        for process in [*running.values()]:
            process.kill()
        os.kill(store, signal.SIGKILL)
        os.waitpid(store, 0)
    return [process.wait() for process in started]


def resume(place: Path, run: Path, world: int, again: list[Any]) -> list[Done]:
    """Resume a run in these processes, or begin it again if it had not begun."""
    words = ["--resume", run, "-q"] if (run / "config.yaml").exists() else again
    return [_judged(done) for done in jobs(place, [training(*words)] * world)]


def _judged(done: Done) -> Done:
    judged(done, (0, 1, 2, -signal.SIGKILL, -signal.SIGTERM, 128 + signal.SIGTERM))
    if sum(line.startswith("error: ") for line in done.err.splitlines()) > 1:
        raise BrokenPromiseError(f"not one line: {done.err[:150]!r}")
    return done


def _kill_one(random: random.Random, place: Path, base: Path) -> None:
    """A killed process; the run is then resumed."""
    rank, kill, words = random.randrange(WORLD), Kill.drawn(random, 1000), writing(base)["train"][1:]
    if kill.seconds is not None:
        kill.seconds *= 6
    works = [training(*words)] * WORLD
    works[rank] = kill.during(works[rank])
    for other, done in enumerate(jobs(place, works)):
        if other != rank:
            _judged(done)
    world = random.choice((WORLD, WORLD, 1, 3))
    told = resume(place, place / "out", world, words)
    if any(done.code for done in told):
        raise BrokenPromiseError(f"process {rank} {kill}: not resumed by {world}: {told[0].err[-150:]}")
    _check(place / "out", base, world, f"process {rank} {kill}")


def _damage(random: random.Random, place: Path, base: Path) -> None:
    """A flipped bit, a missing or a short file in the checkpoints of several processes."""
    run = Path(shutil.copytree(base / "parts", place / "out"))
    file = random.choice(sorted(f for f in (run / "checkpoints").rglob("*") if f.is_file() and f.stat().st_size))
    how, name = random.randrange(4), file.relative_to(run)
    if how == 0:
        file.unlink()
    elif how == 1:
        os.truncate(file, random.randrange(file.stat().st_size))
    else:
        flip(file, random)
    world = random.choice((WORLD, WORLD, 1, 3))
    told = resume(place, run, world, [])
    if all(done.code == 0 for done in told):
        _check(run, base, world, f"damaged {name}")
    elif not all(done.code == 2 for done in told):
        raise BrokenPromiseError(f"damaged {name}: exit codes {[done.code for done in told]}")


def _kill_under_torchrun(random: random.Random, place: Path, base: Path) -> None:
    """A process of a real torchrun killed; the run is then resumed."""
    words, rank = writing(base)["train"], random.randrange(WORLD)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={WORLD}"]
    with open(place / ".torchrun", "w") as out:
        agent = subprocess.Popen(
            [*command, "-m", "songrank", *map(str, words)], cwd=place, stdout=out, stderr=subprocess.STDOUT
        )
    workers, until = set[int](), time.monotonic() + 60
    when = place / "out" / random.choice(("run.json", "config.yaml", "metrics.jsonl", "model.json"))
    try:
        while agent.poll() is None and time.monotonic() < until:
            now = _children(agent.pid)
            workers |= set(now)
            if len(now) >= WORLD and when.exists():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(sorted(now)[rank], signal.SIGKILL)
                break
            time.sleep(0.002)
        agent.wait(60)
    except subprocess.TimeoutExpired:
        raise BrokenPromiseError("torchrun does not end") from None
    finally:
        for process in (agent.pid, *workers) if agent.poll() is None else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    told = resume(place, place / "out", WORLD, words[1:])
    if any(done.code for done in told):
        raise BrokenPromiseError(f"process {rank} of torchrun killed: not resumed: {told[0].err[-150:]}")
    _check(place / "out", base, WORLD, f"process {rank} of torchrun killed")


def _children(process: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return []


def _check(run: Path, base: Path, world: int, what: str) -> None:
    """The same bytes as without interruption; with another number of processes, a whole run."""
    missing = [name for name in TRAINED if not (run / name).exists()]
    if missing:
        raise BrokenPromiseError(f"{what}: no {missing[0]}")
    if world == WORLD and any((run / n).read_bytes() != (base / "pair-run" / n).read_bytes() for n in TRAINED):
        raise BrokenPromiseError(f"{what}: other weights after it was resumed")
