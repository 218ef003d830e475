"""Several real processes of a job, as torchrun starts them; the rendezvous is a store of this process."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import torch.distributed as dist

ROOT = Path(__file__).parents[1]


@contextmanager
def started(world, *words, cwd=None, **environment):
    """Start ``python WORDS`` in ``world`` processes; at the end, those that still run are killed."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(
            [str(ROOT / "src"), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        ),
    }
    running = [
        subprocess.Popen(
            [sys.executable, *map(str, words)],
            env={**os.environ, **shared, **environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()


def results(running, limit=60):
    """Exit code, output and errors of each process; those that still run at the limit are killed and fail the test."""
    end = time.monotonic() + limit
    found = []
    for process in running:
        out, err = process.communicate(timeout=max(0.1, end - time.monotonic()))
        found.append(SimpleNamespace(returncode=process.returncode, stdout=out, stderr=err))
    return found


def run_processes(world, *words, limit=60, **more):
    """Start processes, and wait for the results of all of them."""
    with started(world, *words, **more) as running:
        return results(running, limit)


def run_songrank(world, *words, **more):
    """``songrank WORDS`` in several processes."""
    return run_processes(world, "-m", "songrank", *words, **more)
