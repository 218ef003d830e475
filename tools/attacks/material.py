"""What the attack works on, made once: a data set, runs, stopped runs, a study and an estimator."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attacks import bits
from attacks.kills import training, writing
from attacks.processes import WORLD, jobs
from attacks.sources import CLICKS, INPUTS, SHORT
from attacks.tries import forked, run
from songrank import Recommender
from songrank.core.processes import joined
from songrank.training import Run, load_recipe


def make_material(place: Path) -> None:
    """Make it, and keep what each gives."""
    (place / "log.csv").write_text(INPUTS["interactions"][1])
    data = f"data={place / 'data'}"
    words: list[list[Any]] = [["data", "prepare", "interactions", "log.csv", "-o", "data", "-q"]]
    words += [["train", "recommendation", data, *SHORT, f"seed={n}", "-o", f"run{n}", "-q"] for n in (0, 1)]
    genres = "".join(f"i{n},{'abc'[n % 3]},{n}.5\n" for n in range(25))
    (place / "items.csv").write_text(f"item,genre,year\n{genres}")
    words += [["data", "prepare", "interactions", "log.csv", "--items", "items.csv", "-o", "features", "-q"]]
    words += [["train", "recommendation", f"data={place / 'features'}", *SHORT, "-o", "featured", "-q"]]
    words += [["tune", "recommendation", data, *SHORT, "--trials", 2, "-o", "study", "-q"]]
    words += [["recommend", "run0", "-o", "best.csv", "-q"]]
    for each in words:
        if run(place, *each).code:
            raise SystemExit(f"cannot make the material: {each}")
    (place / "pair").mkdir()
    pair = training(*writing(place)["train"][1:])
    told = [forked(lambda: _fit(place / "saved"), place), forked(_stopped(place, "stopped"), place)]
    told += [*jobs(place / "pair", [pair] * WORLD), *jobs(place, [_stopped(place, "parts")] * WORLD)]
    for done in told:
        if done.code:
            raise SystemExit(f"cannot make the material: {done.err}")
    shutil.move(place / "pair" / "out", place / "pair-run")
    bits.expect(place)


def _fit(place: Path) -> None:
    small = {"warm_up.epochs": 1, "model.dim": 4}
    Recommender(model="matrix-factorisation", epochs=1, options=small, verbose=0).fit(CLICKS).save(place)


def _stopped(place: Path, name: str) -> Callable[[], None]:
    """A training that stops after five steps, with two checkpoints."""

    def work() -> None:
        with joined("cpu") as processes:
            recipe = load_recipe("recommendation", [f"data={place / 'data'}", *SHORT])
            begun, steps = Run.begin(recipe, place / name, save_every=0.0, processes=processes), list[int]()

            def tick() -> None:
                steps.append(1)
                if len(steps) == 5:
                    begun.stop()

            begun.tick = tick
            begun.finish()

    return work
