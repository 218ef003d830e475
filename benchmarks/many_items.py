"""Training of a sequence model over a million items: seconds per epoch, and peak GPU memory.

    python benchmarks/many_items.py data/many batch.irrelevant=2000 warm_up.epochs=2 fine_tuning.epochs=2
    python benchmarks/many_items.py data/many model.length=8 validation.every=0 warm_up.epochs=1 fine_tuning.epochs=1

The data set is created if it does not exist: 2,000 users who walk through the catalogue in steps of seven, and 2,000
users with 500 items each, which cover all items. Further arguments change the recipe `sequences`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch


def make(folder: Path, items: int) -> None:
    """Write and prepare the events."""
    import numpy as np
    import polars as pl

    from songrank.data import prepare

    users, steps = 2_000, 30
    walker = np.repeat(np.arange(users), steps)
    step = np.tile(np.arange(steps), users)
    walked = (np.random.default_rng(0).integers(0, items, users)[walker] + 7 * step) % items
    every = np.arange(items)
    events = pl.DataFrame(
        {
            "user": np.concatenate([walker, users + every // 500]),
            "item": np.concatenate([walked, every]),
            "time": np.concatenate([step, every % 500]),
        }
    )
    with tempfile.TemporaryDirectory() as place:
        events.write_parquet(Path(place) / "events.parquet")
        prepare("interactions", Path(place) / "events.parquet", folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("changes", nargs="*")
    options = parser.parse_intermixed_args()
    if not options.folder.exists():
        make(options.folder, options.items)

    from songrank.data import open_dataset
    from songrank.training.build import make_trainer
    from songrank.training.config.recipe_files import load_recipe

    recipe = load_recipe("sequences", [f"data={options.folder}", *options.changes])
    last = time.monotonic()

    def observe(line: dict[str, Any]) -> None:
        nonlocal last
        if trainer.device.type == "cuda":
            torch.cuda.synchronize()
        now = time.monotonic()
        print(f"{line['stage']:12} epoch {line['epoch']:3}  {now - last:8.3f} s  loss {line['loss']:.4f}", flush=True)
        last = now

    trainer = make_trainer(recipe, open_dataset(recipe.data), observe=observe)
    last = time.monotonic()
    trainer.run()
    print(f"{trainer.at.step} steps")
    if trainer.device.type == "cuda":
        print(f"peak GPU memory {torch.cuda.max_memory_allocated() / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
