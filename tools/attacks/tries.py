"""One try: a command in a forked process with a limit of time and memory, and how it must end."""

import contextlib
import gc
import hashlib
import importlib
import os
import pkgutil
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import songrank as songrank_package
from songrank.cli.main import main as command
from songrank.core.errors import UserError

SECONDS, BYTES = 60, 2 * 2**30


def import_everything() -> None:
    """Import all modules once, before processes are forked."""
    names = [module.name for module in pkgutil.walk_packages(songrank_package.__path__, "songrank.")]
    names += ["torch.utils.tensorboard", "torch._dynamo", "torch.export", "optuna", "optuna.storages", "sqlalchemy"]
    names += ["sqlalchemy.dialects.sqlite", "songrank_paper.synthetic.kind", "yaml", "pyarrow"]
    for name in names:
        if not any(word in name for word in ("kernels", "__main__", "integrations")):  # forks copy what is imported
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()


class BrokenPromiseError(Exception):
    """What songrank must not do."""


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str
    megabytes: float

    @property
    def refused(self) -> bool:
        """Whether it ended with an error."""
        return self.code != 0


@dataclass
class Started:
    """A forked process and the files of its output."""

    process: int
    files: list[Path]
    until: float

    def wait(self) -> Done:
        """Wait for its end; after its limit of time it is killed."""
        while True:
            found, status, used = os.wait4(self.process, os.WNOHANG)
            if found:
                break
            if time.monotonic() > self.until:
                self.kill()
                os.wait4(self.process, 0)
                raise BrokenPromiseError("hangs")
            time.sleep(0.003)
        out, err = (file.read_text(errors="replace") for file in self.files)
        for file in self.files:
            file.unlink()
        return Done(os.waitstatus_to_exitcode(status), out, err, used.ru_maxrss / 1024)

    def kill(self) -> None:
        """Kill it, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)


def start(work: Callable[[], Any], place: Path, seconds: float = SECONDS, **environment: str) -> Started:
    """Start ``work`` in a forked process; the exit code is −N for signal N, 70 for an exception."""
    files = [place / f".{name}-{time.monotonic_ns()}" for name in ("out", "err")]
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.environ.update(environment)
            for number, file in enumerate(files, 1):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            os.chdir(place)
            resource.setrlimit(resource.RLIMIT_AS, (2 * BYTES + 2**33, 2 * BYTES + 2**33))
            work()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return Started(child, files, time.monotonic() + seconds)


def forked(work: Callable[[], Any], place: Path, seconds: float = SECONDS) -> Done:
    """Run ``work`` in a forked process until its end."""
    return start(work, place, seconds).wait()


def songrank(*words: Any) -> Callable[[], None]:
    """The command, to be run in a forked process."""

    def work() -> None:
        sys.argv = ["songrank", *map(str, words)]
        command()

    return work


def judged(done: Done, codes: Sequence[int] = (0, 2)) -> Done:
    """Raise unless the command ended as promised."""
    tail = done.err.strip().splitlines()[-1:] or [""]
    if "Traceback" in done.err:
        raise BrokenPromiseError(f"traceback: {tail[0][:150]}")
    if done.code not in codes:
        raise BrokenPromiseError(f"exit code {done.code}: {tail[0][:150]}")
    if any(not c.isprintable() and c not in "\n\t\r" for c in done.out + done.err):
        raise BrokenPromiseError("control characters in the output")
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
    if done.code == 2 and (len(errors) != 1 or not done.err.splitlines()[-1].startswith("error: ")):
        raise BrokenPromiseError(f"not one line: {done.err[:150]!r}")
    if len(done.err) > 20_000:
        raise BrokenPromiseError(f"{len(done.err)} characters of errors")
    if done.megabytes > BYTES / 2**20:
        raise BrokenPromiseError(f"takes {done.megabytes:,.0f} MB")
    return done


def run(place: Path, *words: Any, codes: Sequence[int] = (0, 2)) -> Done:
    """Run the command and judge how it ended."""
    return judged(forked(songrank(*words), place), codes)


def answer(work: Callable[[], Any]) -> Callable[[], None]:
    """Print the value of ``work``, or its error like the command, to be run in a forked process."""

    def printed() -> None:
        try:
            print(work())
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            sys.exit(2)

    return printed


def digests(folder: Path, but: Sequence[str] = ()) -> dict[str, str]:
    """The content of all files, by name."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name not in but)
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files)}
