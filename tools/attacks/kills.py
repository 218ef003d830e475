"""Commands killed at file-system events and at random times."""

import os
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from attacks.sources import SHORT
from attacks.tries import BrokenPromiseError, digests, forked, judged, run, songrank
from songrank.training import Run

EVENTS = {
    "open",
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.truncate",
    "os.link",
    "os.symlink",
    "shutil.rmtree",
}
TRAINED = ("model.safetensors", "metrics.jsonl")
"""Files of a run that are the same after every interruption."""


@dataclass
class Kill:
    """When a process kills itself: at a file-system event, or after some seconds."""

    events: int
    seconds: float | None

    @classmethod
    def drawn(cls, random: random.Random, events: int) -> "Kill":
        """A random one of the first events, or a random time."""
        return cls(random.randrange(events), random.random() * 0.5 if random.random() < 0.3 else None)

    def during(self, work: Callable[[], None]) -> Callable[[], None]:
        """``work``, killed."""

        def killed() -> None:
            left = self.events

            def watch(event: str, arguments: Any) -> None:
                nonlocal left
                if event in EVENTS:
                    left -= 1
                    if left < 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            if self.seconds is None:
                sys.addaudithook(watch)
            else:
                signal.setitimer(signal.ITIMER_REAL, self.seconds)
                signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            work()

        return killed

    def __str__(self) -> str:
        return f"killed at event {self.events}" if self.seconds is None else f"killed after {self.seconds:.3f} s"


def training(*words: Any) -> Callable[[], None]:
    """``songrank train`` with a checkpoint after each step."""

    def work() -> None:
        for name in ("begin", "resume"):
            patch.object(Run, name, partial(getattr(Run, name), save_every=0.0)).start()
        songrank("train", *words)()

    return work


def writing(base: Path) -> dict[str, list[Any]]:
    """Commands that write an output, by name."""
    train = ["train", "recommendation", f"data={base / 'data'}", *SHORT, "seed=0", "-o", "out", "-q", "--overwrite"]
    return {
        "prepare": ["data", "prepare", "interactions", base / "log.csv", "-o", "out", "-q", "--overwrite"],
        "recommend": ["recommend", base / "run0", "-o", "out.csv", "-q", "--overwrite"],
        "train": train,
        "tune": ["tune", "recommendation", f"data={base / 'data'}", *SHORT, "--trials", 2, "-o", "out", "-q"],
    }


def try_kills(random: random.Random, place: Path, base: Path) -> None:
    """A command killed at a file-system event or at a random time; the same command then gives the same bytes."""
    what = random.choice(("prepare", "prepare", "recommend", "train", "tune"))
    words = writing(base)[what]
    kill = Kill.drawn(random, {"prepare": 150, "recommend": 120, "train": 800, "tune": 1200}[what])
    done = forked(kill.during(training(*words[1:]) if what == "train" else songrank(*words)), place)
    if done.code not in (0, -signal.SIGKILL):
        judged(done)
    if what == "train" and (place / "out" / "config.yaml").exists() and random.random() < 0.7:
        words = ["train", "--resume", "out", "-q"]
    if run(place, *words).code:
        raise BrokenPromiseError(f"{what} {kill} cannot be repeated")
    if what == "recommend":
        same = (place / "out.csv").read_bytes() == (base / "best.csv").read_bytes()
    elif what == "prepare":
        same = digests(place / "out") == digests(base / "data")
    elif what == "tune":
        same = (place / "out" / "best.yaml").read_bytes() == (base / "study" / "best.yaml").read_bytes()
    else:
        same = all((place / "out" / n).read_bytes() == (base / "run0" / n).read_bytes() for n in TRAINED)
    if not same:
        raise BrokenPromiseError(f"{what} {kill} gives other bytes when repeated")
    leftovers = [p.name for p in place.iterdir() if p.name not in ("out", "out.csv")]
    if leftovers:
        raise BrokenPromiseError(f"{what} {kill} leaves {leftovers}")
