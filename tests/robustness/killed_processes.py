"""Kill random processes of torchrun at random moments; as a program, prints what happened.

python -m tests.robustness.killed_processes --kills 20 --seed 1

Each try starts a run of 2 to 4 processes, or resumes it, with a checkpoint after every epoch. At a random moment one of
the processes is killed (SIGKILL). At the end the run is resumed until it is finished.
"""

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from songrank.data import prepare
from tests.processes import ROOT

SMALL = ["model.dim=8", "model.dropout=0.1", "batch.queries=16", "batch.relevant=3", "batch.irrelevant=10"]
SMALL += ["warm_up.epochs=3", "validation.patience=null", "device=cpu", "--json"]
OFTEN = """
import sys
from songrank.training import run
made = run.Run.__init__
run.Run.__init__ = lambda self, *words, **more: made(self, *words, **{**more, "save_every": 0.0})
from songrank.cli.main import main
main()
"""
"""The command, with a checkpoint after every epoch."""
LIMIT, LONGEST = 60, 600
"""Seconds from a kill, and from a start, after which a job counts as hanging."""


@dataclass(frozen=True)
class Ended:
    """How a job ended: its exit code, seconds from the kill to its end, and the epochs of the run so far."""

    world: int
    killed: int | None
    code: int
    seconds: float
    epochs: int
    errors: str


def job(world, folder, *words):
    """Start ``songrank WORDS`` in processes of torchrun."""
    program = folder / "often.py"
    program.write_text(OFTEN)
    launch = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={world}", "--standalone", str(program)]
    place = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*launch, *map(str, words)], env={**os.environ, **place}, **pipes)


def ranks(process):
    """The processes of a job of torchrun, by rank."""
    found = {}
    with suppress(OSError):
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            with suppress(OSError):
                text = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
                found |= {int(entry[5:]): int(child) for entry in text if entry.startswith(b"RANK=")}
    return found


def history(run):
    with suppress(OSError):
        return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines() if line.endswith("}")]
    return []


def ended(process, world, killed, begun, run):
    _, errors = process.communicate(timeout=LONGEST if killed is None else LIMIT)
    return Ended(world, killed, process.returncode, time.monotonic() - begun, len(history(run)), errors)


def one_try(folder, run, words, world, rank=None, ready=lambda: True):
    """Run a job; kill this rank as soon as it exists and ``ready()`` is true."""
    process, end = job(world, folder, *words), time.monotonic() + LONGEST
    try:
        while rank is not None and process.poll() is None and time.monotonic() < end:
            own = ranks(process)
            if ready() and rank in own:
                with suppress(ProcessLookupError):
                    os.kill(own[rank], signal.SIGKILL)
                break
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.02)
        return ended(process, world, rank, time.monotonic(), run)
    finally:
        if process.poll() is None:
            process.terminate()  # it ends its processes
            process.communicate(timeout=60)


def words_of(run, data, epochs):
    """Resume a run if it has begun."""
    if (run / "config.yaml").exists():
        return ["train", "--resume", run, "--json"]
    return ["train", "neumf", f"data={data}", f"fine_tuning.epochs={epochs}", *SMALL, "-o", run]


def check_finished(run, epochs):
    """The run has all its steps, each epoch once, and finite losses."""
    lines, notes = history(run), json.loads((run / "run.json").read_text())
    assert notes["status"] == "finished", notes["status"]
    assert [line["epoch"] for line in lines] == [*range(1, 4), *range(1, epochs + 1)]
    assert [line["step"] for line in lines] == [3 * (at + 1) for at in range(epochs + 3)]
    assert notes["step"] == 3 * (epochs + 3)
    assert all(math.isfinite(line["loss"]) for line in lines)


class Clock:
    """Seconds since the start of a job, or since its first epoch."""

    def __init__(self, run, training):
        self.run = run
        self.before = self._changed()
        self.begun = None if training else time.monotonic()

    def _changed(self):
        with suppress(OSError):
            found = (self.run / "metrics.jsonl").stat()
            return found.st_ino, found.st_size
        return None

    def seconds(self):
        if self.begun is None and len(history(self.run)) and self._changed() != self.before:
            self.begun = time.monotonic()
        return -1.0 if self.begun is None else time.monotonic() - self.begun


def made_data(folder):
    """40 users: 3 batches per epoch."""
    return prepare("synthetic", None, folder / "data", queries=40, items=30, pairs=400).path


def main(kills, seed, epochs, longest):
    chosen = random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        folder, runs, slowest = Path(place), 0, 0.0
        data, run = made_data(folder), folder / "run-0"
        done = 0
        while done < kills:
            world, moment = chosen.choice([2, 3, 4]), chosen.uniform(0, longest)
            rank, training = chosen.randrange(world), chosen.random() < 0.75
            clock = Clock(run, training)
            found = one_try(
                folder, run, words_of(run, data, epochs), world, rank, lambda c=clock, m=moment: c.seconds() >= m
            )
            if found.code == 0:  # finished before its kill
                check_finished(run, epochs)
                runs, run = runs + 1, folder / f"run-{runs + 1}"
                continue
            done, slowest = done + 1, max(slowest, found.seconds)
            kept = sorted(path.name for path in run.glob("checkpoints/step-*"))
            since = "the first epoch" if training else "the start"
            what = f"rank {rank} of {world} killed {moment:.1f} s after {since}, at {found.epochs} epochs"
            then = f"ended after {found.seconds:.1f} s with code {found.code}"
            print(f"{done}: {what}; {then}; last checkpoint: {kept[-1] if kept else 'none'}", flush=True)
        found = one_try(folder, run, words_of(run, data, epochs), chosen.choice([2, 3, 4]))
        assert found.code == 0, found.errors
        check_finished(run, epochs)
        print(f"{done} kills in {runs + 1} runs: all resumed and finished; the slowest end took {slowest:.1f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=600)
    parser.add_argument("--longest", type=float, default=6.0, help="seconds to a kill, at most")
    main(**vars(parser.parse_args()))
