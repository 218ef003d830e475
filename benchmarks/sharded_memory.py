"""State and peak memory of each of W processes that train together, measured with torchrun and gloo on this machine.

python benchmarks/sharded_memory.py                                  # W = 1, 2, 4, 8; about 3 minutes
python benchmarks/sharded_memory.py --users 20000 --processes 1 2    # smaller

The model is matrix factorisation with SONG and Adam, on random interactions. Each process opens the prepared data,
builds its part of the run, trains some steps, and writes its part of a checkpoint. Reported are the largest
values of all processes:

state     bytes of pairs, loss memory, rows of users, and the optimiser's state of these rows
shared    bytes of item embeddings and their optimiser's state, which every process has
build     peak memory while the part is built, above the memory before the data is opened
train     the same, until the end of training; evaluation needs up to 1.5 GiB more, of any W
saving    peak memory while the checkpoint is written, above the memory before
shard     bytes of the file that the process writes

Peak memory is the kernel's VmHWM, which includes touched pages of memory-mapped files. Linux only.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

STEPS = 4


def memory(name: str) -> int:
    """A line of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def start_peak() -> int:
    """Let VmHWM begin again; return the current memory."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def size(tensors: Any) -> int:
    """Bytes of tensors, each storage once."""
    return sum({one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors}.values())


def work(data: str, dimension: int, folder: str) -> None:
    """One process: measure, and print the largest values of all of them."""
    import torch

    from songrank.core.processes import joined
    from songrank.data import open_dataset
    from songrank.training.build import make_trainer
    from songrank.training.checkpoints import Checkpoints
    from songrank.training.config.recipe_files import load_recipe

    changes = [f"data={data}", "model=matrix-factorisation", f"model.dim={dimension}", "loss=song", "device=cpu"]
    changes += ["warm_up.epochs=0", "fine_tuning.epochs=1", "batch.queries=512", "batch.irrelevant=50"]
    changes += ["validation.every=0"]
    with joined("cpu") as processes:
        torch.ones(64, 64) @ torch.ones(64, 64)  # loads libraries
        processes.wait()
        begun = start_peak()
        trainer = make_trainer(load_recipe("recommendation", changes), open_dataset(data), processes)
        build = memory("VmHWM") - begun
        trainer.tick = lambda: trainer.stop() if trainer.at.step == STEPS else None
        trainer.run()
        train = memory("VmHWM") - begun
        own, state = set(trainer.own_rows.tables), trainer.state_dict()
        tables = [t for name, t in trainer.model.named_parameters() if name.startswith("query_factors")]
        items = [t for name, t in trainer.model.named_parameters() if not name.startswith("query_factors")]
        assert not own or len(own) == len(tables)
        optimiser = trainer._optimiser
        assert optimiser is not None
        moments = {id(t): list(optimiser.state[t].values()) for t in (*tables, *items)}
        pairs = [value for value in vars(trainer.adapter.relevance).values() if isinstance(value, torch.Tensor)]
        losses = [value for stage in trainer.stages for value in stage.loss.buffers()]
        held = [*pairs, *losses, *tables, *(moment for t in tables for moment in moments[id(t)])]
        shared = size([*items, *(moment for t in items for moment in moments[id(t)])])
        before = start_peak()
        Checkpoints(Path(folder), processes=processes).save(trainer.at.step, state)
        saving = memory("VmHWM") - before
        name = "tensors.safetensors" if processes.is_first else f"tensors-{processes.rank}.safetensors"
        (written,) = Path(folder).glob(f"step-*/{name}")
        values = [size(held), shared, build, train, saving, written.stat().st_size]
        found = [processes.largest(float(value)) for value in values]
        if processes.is_first:
            print(json.dumps(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=400_000)
    parser.add_argument("--items", type=int, default=2_000)
    parser.add_argument("--pairs-per-user", type=int, default=20)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--worker", nargs=2, metavar=("DATA", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker[0], options.dimension, options.worker[1])
        return
    import numpy as np

    from songrank.data import prepare

    with tempfile.TemporaryDirectory() as place:
        random, each = np.random.default_rng(0), options.pairs_per_user
        user = np.repeat(np.arange(options.users), each)
        item = (random.integers(options.items, size=(options.users, 1)) + np.arange(each) * 7) % options.items
        table = {"user": user, "item": item.reshape(-1), "time": np.tile(np.arange(each), options.users)}
        prepare("interactions", table, Path(place) / "data")
        pairs = options.users * each
        print(f"{options.users:,} users, {options.items:,} items, {pairs:,} pairs, dimension {options.dimension}; MiB")
        print("W  " + "".join(f"{name:>10}" for name in ("state", "shared", "build", "train", "saving", "shard")))
        for world in options.processes:
            folder = str(Path(place) / f"checkpoints-{world}")
            launch = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={world}", "--standalone"]
            words = [__file__, "--worker", f"{place}/data", folder, "--dimension", str(options.dimension)]
            done = subprocess.run([*launch, *words], stdout=subprocess.PIPE, text=True, check=True)
            values = json.loads(done.stdout.splitlines()[-1])
            print(f"{world:<3}" + "".join(f"{value / 2**20:10.1f}" for value in values), flush=True)


if __name__ == "__main__":
    main()
