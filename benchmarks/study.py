"""Many runs of one recipe at once: grids of changes, over processes, each a run that `songrank compare` reads.

    python benchmarks/study.py movielens-1m -o studies/tune --jobs 12 --splits validation \
        "loss=song fine_tuning.learning_rate=4e-4,1e-3 loss.gamma=0.1,0.3" "loss=lambdarank loss.sigma=0.3,1,3"

Each quoted word is a grid: alternatives are separated by commas. Runs that are finished already are left alone, those
that were stopped are gone on with, so the same command twice does nothing twice. The table at the end shows the first
of the splits; what is measured on the others is written into the runs and not shown, so that it cannot be chosen by.

A whole study is three rounds in one command:

    python benchmarks/study.py movielens-1m -o studies/ml-1m --seeds 100 --best 4 --again 101,102 --report 0,1,2 \
        "loss=song loss.gamma=0.1,0.3" "loss=bce fine_tuning.learning_rate=1e-3,2e-3"

Every setting of a grid with the seeds of --seeds; the --best of each grid with those of --again too; the best one of
each grid, by the mean over these seeds, with those of --report, which are new, into the folder `report` within. Only
these are evaluated on test. What is best is the mean of the --metric on validation; several are averaged. A change must
have no blanks here: {"60":0.25} for {60: 0.25}.

With --rehearsals, settings are chosen by the test split of other data sets, each with every seed: those that
`songrank data prepare --drop-last 1` (2, 3) makes of the same interactions, without the last ones, which are the
recipe's own test. A setting is then judged as it will be in the end: by what came after what its epoch was chosen on.
With --rehearsals-again the best of each grid are run on these instead, so that luck on the first ones counts less.

With --share, runs that have their warm-up in common, seed and all, do it once: each then goes on from its end, to what
it would have come to by itself.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import multiprocessing
import re
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from songrank.core.errors import UserError


@dataclass
class Setting:
    """One combination of a grid, and what its seeds gave."""

    grid: int
    changes: list[str]
    metrics: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0

    def mean(self, name: str) -> float:
        """The mean over all runs; not a bit of it depends on which of them ended first."""
        found = math.fsum(metrics[name] for metrics in self.metrics) / len(self.metrics)
        return found if math.isfinite(found) else -math.inf


def combinations(text: str) -> list[list[str]]:
    """All combinations of one grid: ``"a=1,2 b=3"`` → [[a=1, b=3], [a=2, b=3]]."""
    choices = []
    for word in text.split():
        key, _, values = word.partition("=")
        choices.append([f"{key}={value}" for value in re.split(r",(?![^\[{]*[\]}])", values)])
    return [list(combination) for combination in itertools.product(*choices)]


def shared_part(recipe: Any) -> str:
    """A checksum of all that a warm-up depends on."""
    apart = {"title", "prepare", "device", "loss", "fine_tuning", "evaluation"}
    values = recipe.model_dump(mode="json", exclude=apart)
    if not values["deterministic"]:
        del values["deterministic"]  # which is younger than some warm-ups
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def begin_worker(threads: int) -> None:
    """What each process does first."""
    import torch

    from songrank.core.allocator import keep_freed_memory

    torch.set_num_threads(threads)
    keep_freed_memory()


def warm_up(recipe: str, changes: list[str], folder: str) -> None:
    """Do the warm-up of a run, unless it is done; its state at the end is a checkpoint."""
    from songrank.data import open_dataset
    from songrank.training.build import make_trainer
    from songrank.training.checkpoints import Checkpoints
    from songrank.training.config.recipe_files import load_recipe

    told = load_recipe(recipe, changes)
    key = shared_part(told)
    kept = Checkpoints(Path(folder) / "warm-ups" / key[:16], owner=key)
    alone = told.model_copy(update={"fine_tuning": told.fine_tuning.model_copy(update={"epochs": 0})})
    with suppress(UserError):  # the run will say what is wrong
        make_trainer(alone, open_dataset(told.data), checkpoints=kept, save_every=600.0).run()


def take_warm_up(run: Any, recipe: Any, folder: str) -> None:
    """Put the end of the warm-up where a run that was stopped there would have it."""
    from songrank.training.checkpoints import Checkpoints

    key, trainer = shared_part(recipe), run.trainer
    found = Checkpoints(Path(folder) / "warm-ups" / key[:16], owner=key).latest()
    if found is None:
        return
    step, state = found
    own = trainer.state_dict()
    trainer.load_state_dict({**state, **{part: state[part][:1] + own[part][1:] for part in ("losses", "samplers")}})
    trainer.checkpoints.save(step, trainer.state_dict())


def run_name(changes: list[str]) -> str:
    """A folder's name for a run: its changes; of very many the last ones, after a checksum of all."""
    name = re.sub(r"[^A-Za-z0-9.=_-]+", "-", " ".join(changes) or "plain")
    return name if len(name) <= 200 else f"{hashlib.sha256(name.encode()).hexdigest()[:8]}-{name[-190:]}"


def run_one(recipe: str, changes: list[str], folder: str, splits: tuple[str, ...], share: str = "") -> dict[str, Any]:
    from songrank.training.config.recipe_files import load_recipe
    from songrank.training.run import Run
    from songrank.training.run_directory import RunDirectory
    from songrank.training.trainer.loop import DivergedError, NoMemoryError

    path = Path(folder) / run_name(changes)
    begun = time.monotonic()
    try:
        told, directory = load_recipe(recipe, changes), RunDirectory(path)
        exists = directory.config.exists()
        if exists and directory.recipe() != told.model_copy(update={"data": str(Path(told.data).absolute())}):
            raise UserError(f"{path}: holds a run of another recipe; choose another place with -o")
        if directory.notes().get("status") != "finished":
            options: dict[str, Any] = {
                "splits": splits,
                "save_every": 600.0,
                "warn": lambda message: print(message, flush=True),
            }
            run = Run.resume(path, **options) if exists else Run.begin(told, path, **options)
            if share and not exists and told.warm_up.epochs and told.fine_tuning.epochs:
                take_warm_up(run, told, share)
            run.finish()
        figures = path / "evaluation" / f"{splits[0]}.json"
        if not figures.exists():
            raise UserError(f"{path}: was run without figures of {splits[0]}; choose another place with -o")
    except (DivergedError, NoMemoryError) as error:  # which counts against the setting
        return {"changes": changes, "failed": str(error), "seconds": time.monotonic() - begun}
    except UserError as error:
        return {"changes": changes, "error": str(error), "seconds": time.monotonic() - begun}
    found = json.loads(figures.read_text())["metrics"]
    return {"changes": changes, "metrics": found, "seconds": time.monotonic() - begun}


class Study:
    """A pool of processes, and what came of the runs."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.begun, self.refused = options, time.monotonic(), False
        context = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(options.jobs, context, begin_worker, (options.threads,))

    def run(
        self, settings: list[Setting], seeds: list[str], output: str, splits: tuple[str, ...], data: Iterable[str] = ()
    ) -> bool:
        """Run these settings with all of these seeds and data sets, where given; False if the time was over before."""
        options, share = self.options, self.options.output if self.options.share else ""
        others = [[f"data={path}"] for path in data] or [[]]
        own = [[f"seed={seed}"] for seed in seeds] or [[]]
        runs = [
            (setting, [*setting.changes, *where, *seed])
            for setting, where, seed in itertools.product(settings, others, own)
        ]
        if share and not self._warm_up([changes for _, changes in runs]):
            return False
        jobs = {
            self.pool.submit(run_one, options.recipe, changes, output, splits, share): setting
            for setting, changes in runs
        }
        for done in as_completed(jobs):
            if done.cancelled():
                continue
            row, setting = done.result(), jobs[done]
            print(f"{time.monotonic() - self.begun:6.0f} s  {json.dumps(row)}", flush=True)
            self.refused |= "error" in row
            if "metrics" in row:
                setting.metrics.append(row["metrics"])
                setting.seconds = max(setting.seconds, row["seconds"])
            self._end_in_time(jobs)
        return not any(job.cancelled() for job in jobs)

    def _end_in_time(self, jobs: Iterable[Future[Any]]) -> None:
        """Begin none of these any more if the time is over."""
        if time.monotonic() - self.begun > self.options.limit:
            for job in jobs:
                job.cancel()

    def _warm_up(self, runs: list[list[str]]) -> bool:
        """Do every warm-up of these runs once; False if the time was over before. A bad recipe's run will say so."""
        from songrank.training.config.recipe_files import load_recipe

        different: dict[str, list[str]] = {}
        for changes in runs:
            try:
                recipe = load_recipe(self.options.recipe, changes)
            except UserError:
                continue
            if recipe.warm_up.epochs and recipe.fine_tuning.epochs:
                different.setdefault(shared_part(recipe), changes)
        waiting = [
            self.pool.submit(warm_up, self.options.recipe, changes, self.options.output)
            for changes in different.values()
        ]
        done = (job for job in as_completed(waiting) if not job.cancelled())
        for number, job in enumerate(done, 1):
            job.result()
            print(f"{time.monotonic() - self.begun:6.0f} s  warm-up {number} of {len(waiting)}", flush=True)
            self._end_in_time(waiting)
        return not any(job.cancelled() for job in waiting)

    def show(self, settings: list[Setting], split: str) -> None:
        """The settings, the best first."""
        for setting in self.ranked(settings):
            figures = "  ".join(f"{name} {setting.mean(name):.4f}" for name in setting.metrics[0])
            seeds = f"{len(setting.metrics)} runs  " if len(setting.metrics) > 1 else ""
            print(f"{split} {figures}  {seeds}{setting.seconds:5.0f} s  {' '.join(setting.changes)}")

    def ranked(self, settings: list[Setting]) -> list[Setting]:
        """By the mean of the metrics; those of most runs first."""
        good = [setting for setting in settings if setting.metrics]
        if not good:
            return []
        names = self.options.metric.split(",") if self.options.metric else [next(iter(good[0].metrics[0]))]
        return sorted(good, key=lambda found: (-len(found.metrics), -sum(found.mean(name) for name in names)))

    def by_grid(self, settings: list[Setting]) -> Iterator[list[Setting]]:
        for number in sorted({setting.grid for setting in settings}):
            yield self.ranked([setting for setting in settings if setting.grid == number])


def main() -> None:
    from songrank.data import open_dataset
    from songrank.training.config.recipe_files import load_recipe

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("grids", nargs="*", default=[""])
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--splits", default="validation")
    parser.add_argument("--metric", default="", help="what settings are ranked by; the first one if not given")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds after which no more is begun")
    parser.add_argument("--seeds", default="", help="of every setting; else as the grids say")
    parser.add_argument("--rehearsals", default="", help="data sets whose test split settings are chosen by")
    parser.add_argument("--rehearsals-again", default="", help="data sets for the seeds of --again; else the same")
    parser.add_argument("--share", action="store_true", help="do a warm-up that runs have in common once")
    parser.add_argument("--best", type=int, default=4, help="settings of each grid that are run again")
    parser.add_argument("--again", default="", help="further seeds of the best")
    parser.add_argument("--report", default="", help="seeds of the best one of each grid, evaluated on test too")
    options = parser.parse_intermixed_args()
    seeds, again, report = (text.split(",") if text else [] for text in (options.seeds, options.again, options.report))
    if (again or report) and (not seeds or options.splits != "validation"):
        parser.error("--again and --report choose on validation, or by rehearsals, among settings of --seeds")
    if len({*seeds, *again, *report}) < len(seeds) + len(again) + len(report):
        parser.error("--seeds, --again and --report expect different seeds")
    rehearsals = options.rehearsals.split(",") if options.rehearsals else []
    later = options.rehearsals_again.split(",") if options.rehearsals_again else rehearsals
    if options.rehearsals_again and not (rehearsals and again):
        parser.error("--rehearsals-again goes with --rehearsals and --again")
    if rehearsals and options.splits != "validation":
        parser.error("--rehearsals are judged by their test split; leave --splits out")
    if rehearsals and any(re.match("data=.*,", word) for text in options.grids for word in text.split()):
        parser.error("--rehearsals take the place of data=, of which there are several")
    if seeds and any(word.startswith("seed=") for text in options.grids for word in text.split()):
        parser.error("seed= stands in a grid, and --seeds too")
    settings = [Setting(number, changes) for number, text in enumerate(options.grids) for changes in combinations(text)]
    with suppress(UserError):  # the runs will say what is wrong
        first = load_recipe(options.recipe, settings[0].changes)
        measured, own = first.evaluation.metrics, Path(first.data)
        if any(Path(other).resolve() == own.resolve() for other in [*rehearsals, *later]):
            parser.error(f"{own} is the recipe's own data set, whose test is no rehearsal")
        if not set(filter(None, options.metric.split(","))) <= set(measured):
            parser.error(f"--metric is {options.metric}; expected some of {', '.join(measured)}")
    for other in dict.fromkeys([*rehearsals, *later]):
        try:
            if "test" not in open_dataset(other):
                parser.error(f"{other} has no test split, by which a rehearsal is judged")
        except UserError as error:
            parser.error(str(error))
    splits = ("test", "validation") if rehearsals else tuple(options.splits.split(","))
    shown = "rehearsed test" if rehearsals else splits[0]
    study = Study(options)
    with study.pool:
        whole, refused = study.run(settings, seeds, options.output, splits, rehearsals), False
        if again and whole:
            study.refused = False  # what is refused in the first round is left out of the second, and no more
            best = [setting for grid in study.by_grid(settings) for setting in grid[: options.best]]
            whole = study.run(best, again, options.output, splits, later)
            refused = study.refused
        for grid in study.by_grid(settings):
            study.show(grid, shown)
        if report and refused:
            print("a run of the second round was refused: nothing was chosen; mend it, and the same command goes on")
        elif report and whole:
            chosen = [Setting(grid[0].grid, grid[0].changes) for grid in study.by_grid(settings) if grid]
            study.run(chosen, report, str(Path(options.output) / "report"), ("validation", "test"))
            study.show(chosen, "validation, seeds of the report:")
    if not whole:
        print("the time was over before all was run: nothing was chosen; the same command goes on")


if __name__ == "__main__":
    main()
