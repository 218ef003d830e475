"""Many runs of one recipe at once: grids of changes, over processes, each a run that `songrank compare` reads.

    python benchmarks/study.py movielens-1m -o studies/tune --jobs 12 --splits validation \
        "loss=song fine_tuning.learning_rate=4e-4,1e-3 loss.gamma=0.1,0.3" "loss=lambdarank loss.sigma=0.3,1,3"

Each quoted word is a grid: alternatives are separated by commas. Runs that are finished already are left alone, those
that were stopped are gone on with, so the same command twice does nothing twice. The table at the end shows the first
of the splits; what is measured on the others is written into the runs and not shown, so that it cannot be chosen by.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import re
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from songrank.errors import UserError


def grid(text: str) -> list[list[str]]:
    """All combinations of one grid: ``"a=1,2 b=3"`` → [[a=1, b=3], [a=2, b=3]]."""
    choices = []
    for word in text.split():
        key, _, values = word.partition("=")
        choices.append([f"{key}={value}" for value in re.split(r",(?![^\[{]*[\]}])", values)])
    return [list(combination) for combination in itertools.product(*choices)]


def run_one(recipe: str, changes: list[str], folder: str, splits: tuple[str, ...], threads: int) -> dict[str, Any]:
    import torch

    from songrank.training.recipe_files import load_recipe
    from songrank.training.run import Run
    from songrank.training.run_directory import RunDirectory

    torch.set_num_threads(threads)
    path = Path(folder) / re.sub(r"[^A-Za-z0-9.=_-]+", "-", " ".join(changes) or "plain")
    begun = time.monotonic()
    try:
        if RunDirectory(path).notes().get("status") != "finished":
            options: dict[str, Any] = {
                "splits": splits,
                "save_every": 600.0,
                "warn": lambda message: print(message, flush=True),
            }
            exists = (path / "config.yaml").exists()
            run = Run.resume(path, **options) if exists else Run.begin(load_recipe(recipe, changes), path, **options)
            run.finish()
    except UserError as error:
        return {"changes": changes, "error": str(error), "seconds": time.monotonic() - begun}
    found = json.loads((path / "evaluation" / f"{splits[0]}.json").read_text())["metrics"]
    return {"changes": changes, "metrics": found, "seconds": time.monotonic() - begun}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("grids", nargs="*", default=[""])
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--splits", default="validation")
    parser.add_argument("--metric", default="")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which no more is begun")
    options = parser.parse_intermixed_args()
    jobs = [combination for text in options.grids for combination in grid(text)]
    splits = tuple(options.splits.split(","))
    rows: list[dict[str, Any]] = []
    begun = time.monotonic()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        waiting = {
            pool.submit(run_one, options.recipe, job, options.output, splits, options.threads): job for job in jobs
        }
        for done in as_completed(waiting):
            if done.cancelled():
                continue
            rows.append(done.result())
            print(f"{time.monotonic() - begun:6.0f} s  {json.dumps(rows[-1])}", flush=True)
            if time.monotonic() - begun > options.limit:
                pool.shutdown(wait=False, cancel_futures=True)
    good = [row for row in rows if "error" not in row]
    if good:
        metric = options.metric or next(iter(good[0]["metrics"]))
        for row in sorted(good, key=lambda row: -row["metrics"][metric]):
            figures = "  ".join(f"{name} {value:.4f}" for name, value in row["metrics"].items())
            print(f"{splits[0]} {figures}  {row['seconds']:5.0f} s  {' '.join(row['changes'])}")


if __name__ == "__main__":
    main()
