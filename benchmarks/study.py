"""Grids of settings over seeds and data sets, in processes: each trial is a run that `songrank compare` reads.

    python benchmarks/study.py movielens-1m -o studies/tune --jobs 12 --splits validation \
        "loss=song fine_tuning.learning_rate=4e-4,1e-3 loss.gamma=0.1,0.3" "loss=lambdarank loss.sigma=0.3,1,3"

Each quoted word is a grid: alternatives are separated by commas. The same command resumes: finished runs are read, and
stopped runs continue. The table at the end shows the first of the splits; metrics of the others are written into the
runs and not shown, so that nothing is chosen by them.

A whole study is three rounds in one command:

    python benchmarks/study.py movielens-1m -o studies/ml-1m --seeds 100 --best 4 --again 101,102 --report 0,1,2 \
        "loss=song loss.gamma=0.1,0.3" "loss=bce fine_tuning.learning_rate=1e-3,2e-3"

1. Every setting of a grid is run with the seeds of --seeds.
2. The --best settings of each grid are run with the seeds of --again too.
3. The best setting of each grid, by the mean over these seeds, is run with the seeds of --report, which are new, into
   the folder `report`. Only these runs are evaluated on test.

Settings are ranked by the mean of the --metric on validation; several metrics are averaged. A change contains no blanks
here: {"60":0.25} instead of {60: 0.25}.

With --backtests, settings are chosen on the test splits of other data sets, each with every seed. Prepare them from the
same interactions with `songrank data prepare --drop-last 1` (2, 3), which drops the last interactions, those of the
recipe's own test split. As in the final evaluation, a setting is then scored on interactions after those that its epoch
was chosen on. With --backtests-again, the best settings of each grid are run on these data sets instead, which reduces
selection bias.

With --share, trials with the same warm-up, including the seed, train it once and continue from its end,
bit-exactly.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from songrank.analysis.search_space import read_grid
from songrank.analysis.trials import best_first, run_trial, warm_up_alone
from songrank.core.errors import UserError
from songrank.data import open_dataset
from songrank.training.config.recipe import Recipe
from songrank.training.config.recipe_files import load_recipe
from songrank_paper.workers import Workers

REPORTED = ("validation", "test")


@dataclass(eq=False)
class Setting:
    """A combination of a grid, and the metrics of its runs."""

    grid: int
    changes: list[str]
    metrics: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0

    def mean(self, name: str) -> float:
        """The mean over all runs, bit-exactly independent of the order in which they ended."""
        return math.fsum(metrics[name] for metrics in self.metrics) / len(self.metrics)


@dataclass(frozen=True)
class Job:
    """A trial: the index of its setting, and its data set, seed and run directory."""

    setting: int
    changes: tuple[str, ...]
    path: Path
    splits: tuple[str, ...]
    warm_ups: Path | None = None


def shared_part(recipe: Recipe) -> str:
    """A checksum of everything that a warm-up depends on."""
    apart = {"title", "prepare", "device", "loss", "fine_tuning", "evaluation"}
    values = recipe.model_dump(mode="json", exclude=apart)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def run_job(source: str, job: Job) -> dict[str, Any]:
    """Train a trial in its own process; returns the row to print."""
    begun, row = time.monotonic(), dict[str, Any](changes=job.changes)
    try:
        recipe = load_recipe(source, job.changes)
        shared = job.warm_ups if recipe.warm_up.epochs and recipe.fine_tuning.epochs else None
        after = None if shared is None else shared / shared_part(recipe)
        warn = partial(print, flush=True)
        found = run_trial(recipe, job.path, job.splits, after=after, save_every=600.0, warn=warn)
        assert found is not None
        row |= {"metrics": found.metrics[job.splits[0]]} if found.error is None else {"failed": str(found.error)}
    except UserError as error:
        row |= {"error": str(error)}
    return row | {"seconds": time.monotonic() - begun}


def run_warm_up(folder: Path, recipe: Recipe) -> None:
    with suppress(UserError):  # the trial reports what is wrong
        run_trial(warm_up_alone(recipe), folder / shared_part(recipe), (), save_every=600.0)


def run_name(changes: Sequence[str]) -> str:
    """The directory name of a trial: its changes; long names keep the last ones after a checksum of all."""
    name = re.sub(r"[^A-Za-z0-9.=_-]+", "-", " ".join(changes) or "plain")
    return name if len(name) <= 200 else f"{hashlib.sha256(name.encode()).hexdigest()[:8]}-{name[-190:]}"


class Study:
    """Processes, and the results of the trials."""

    def __init__(self, options: argparse.Namespace, workers: Workers) -> None:
        self.options, self.workers, self.begun, self.refused = options, workers, time.monotonic(), False

    def run(
        self, settings: list[Setting], seeds: list[str], output: Path, splits: tuple[str, ...], data: Sequence[str] = ()
    ) -> bool:
        """Run settings with these seeds and data sets, if given; False if the time limit was reached."""
        others = [[f"data={path}"] for path in data] or [[]]
        own = [[f"seed={seed}"] for seed in seeds] or [[]]
        warm_ups = Path(self.options.output) / "warm-ups" if self.options.share else None
        jobs = []
        for (number, setting), *more in itertools.product(enumerate(settings), others, own):
            changes = (*setting.changes, *itertools.chain(*more))
            jobs.append(Job(number, changes, output / run_name(changes), splits, warm_ups))
        if warm_ups is not None and not self._warm_up(warm_ups, jobs):
            return False
        left = iter(jobs)
        for job, row in self.workers.do((), partial(run_job, self.options.recipe), more=lambda: self._next(left)):
            print(f"{time.monotonic() - self.begun:6.0f} s  {json.dumps(row)}", flush=True)
            self.refused |= "error" in row
            if "metrics" in row:
                setting = settings[job.setting]
                setting.metrics.append(row["metrics"])
                setting.seconds = max(setting.seconds, row["seconds"])
        return next(left, None) is None

    def _next(self, left: Iterator[Any]) -> list[Any]:
        """The next trial; none after the time limit."""
        first = time.monotonic() - self.begun <= self.options.limit
        return list(itertools.islice(left, 1)) if first else []

    def _warm_up(self, folder: Path, jobs: list[Job]) -> bool:
        """Train every warm-up of these trials once; False if the time limit was reached."""
        recipes: dict[str, Recipe] = {}
        for job in jobs:
            with suppress(UserError):  # the trial reports what is wrong
                recipe = load_recipe(self.options.recipe, job.changes)
                if recipe.warm_up.epochs and recipe.fine_tuning.epochs:
                    recipes.setdefault(shared_part(recipe), recipe)
        left = iter(recipes.values())
        done = self.workers.do((), partial(run_warm_up, folder), more=lambda: self._next(left))
        for number, _ in enumerate(done, 1):
            print(f"{time.monotonic() - self.begun:6.0f} s  warm-up {number} of {len(recipes)}", flush=True)
        return next(left, None) is None

    def show(self, settings: list[Setting], split: str) -> None:
        """Print the settings, best first."""
        for setting in self.ranked(settings):
            figures = "  ".join(f"{name} {setting.mean(name):.4f}" for name in setting.metrics[0])
            seeds = f"{len(setting.metrics)} runs  " if len(setting.metrics) > 1 else ""
            print(f"{split} {figures}  {seeds}{setting.seconds:5.0f} s  {' '.join(setting.changes)}")

    def ranked(self, settings: list[Setting]) -> list[Setting]:
        """Sort by the number of runs, then by the mean of the metrics."""
        good = [setting for setting in settings if setting.metrics]
        if not good:
            return []
        names = self.options.metric.split(",") if self.options.metric else [next(iter(good[0].metrics[0]))]
        best = best_first({one: sum(one.mean(name) for name in names) for one in good})
        return sorted(best, key=lambda one: -len(one.metrics))

    def by_grid(self, settings: list[Setting]) -> Iterator[list[Setting]]:
        for number in sorted({setting.grid for setting in settings}):
            yield self.ranked([setting for setting in settings if setting.grid == number])


def read_options(words: Sequence[str] | None) -> argparse.Namespace:
    """Read and check the command line; invalid ways of selection exit with code 2."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("grids", nargs="*", default=[""])
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--splits", default="validation")
    parser.add_argument("--metric", default="", help="metrics to rank settings by; by default the first one")
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds after which no trial starts")
    parser.add_argument("--seeds", default="", help="seeds of every setting; by default those of the grids")
    parser.add_argument(
        "--backtests", "--rehearsals", default="", help="data sets on whose test splits settings are chosen"
    )
    parser.add_argument(
        "--backtests-again",
        "--rehearsals-again",
        default="",
        help="data sets for the seeds of --again; by default the same",
    )
    parser.add_argument("--share", action="store_true", help="train warm-ups that trials share once")
    parser.add_argument("--best", type=int, default=4, help="number of settings per grid that are run again")
    parser.add_argument("--again", default="", help="further seeds of the best settings")
    parser.add_argument("--report", default="", help="seeds of the best setting of each grid, also evaluated on test")
    options = parser.parse_intermixed_args(words)
    for name in ("seeds", "again", "report", "backtests", "backtests_again"):
        setattr(options, name, [word for word in getattr(options, name).split(",") if word])
    seeds, again, report, backtests = options.seeds, options.again, options.report, options.backtests
    if (again or report) and (not seeds or options.splits != "validation"):
        parser.error("--again and --report need --seeds, and validation or backtests to choose on")
    if len({*seeds, *again, *report}) < len(seeds) + len(again) + len(report):
        parser.error("--seeds, --again and --report need different seeds")
    if options.backtests_again and not (backtests and again):
        parser.error("--backtests-again needs --backtests and --again")
    if backtests and options.splits != "validation":
        parser.error("--backtests use the test split; leave out --splits")
    if backtests and any(re.match("data=.*,", word) for text in options.grids for word in text.split()):
        parser.error("--backtests replace data=, but a grid has several data sets")
    if seeds and any(word.startswith("seed=") for text in options.grids for word in text.split()):
        parser.error("seeds are given by seed= in a grid and by --seeds; pass one of them")
    options.backtests_again = options.backtests_again or backtests
    others = dict.fromkeys([*backtests, *options.backtests_again])
    with suppress(UserError):  # the trials report what is wrong
        first = load_recipe(options.recipe, read_grid(options.grids[0])[0])
        measured, own = first.evaluation.metrics, Path(first.data)
        if any(Path(other).resolve() == own.resolve() for other in others):
            parser.error(f"{own} is the data set of the recipe, whose test split is not a backtest")
        if not set(filter(None, options.metric.split(","))) <= set(measured):
            parser.error(f"--metric is {options.metric}; expected some of {', '.join(measured)}")
    for other in others:
        try:
            if "test" not in open_dataset(other):
                parser.error(f"{other} has no test split, which a backtest needs")
        except UserError as error:
            parser.error(str(error))
    return options


def main(words: Sequence[str] | None = None) -> None:
    options = read_options(words)
    settings = [Setting(number, changes) for number, text in enumerate(options.grids) for changes in read_grid(text)]
    splits = ("test", "validation") if options.backtests else tuple(options.splits.split(","))
    output = Path(options.output)
    if options.jobs == 1:
        torch.set_num_threads(options.threads)
    with Workers(options.jobs, options.threads) as workers:
        study = Study(options, workers)
        whole, refused = study.run(settings, options.seeds, output, splits, options.backtests), False
        if options.again and whole:
            study.refused = False  # settings rejected in the first round are only skipped in the second
            best = [setting for grid in study.by_grid(settings) for setting in grid[: options.best]]
            whole = study.run(best, options.again, output, splits, options.backtests_again)
            refused = study.refused
        for grid in study.by_grid(settings):
            study.show(grid, "backtest" if options.backtests else splits[0])
        if options.report and refused:
            print(
                "a run of the second round failed, so no setting was chosen; fix it and run the same command to resume"
            )
        elif options.report and whole:
            chosen = [Setting(grid[0].grid, grid[0].changes) for grid in study.by_grid(settings) if grid]
            study.run(chosen, options.report, output / "report", REPORTED)
            study.show(chosen, "validation, seeds of the report:")
    if not whole:
        print("time limit reached, so no setting was chosen; run the same command to resume")


if __name__ == "__main__":
    main()
