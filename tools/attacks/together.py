"""Two commands on one output."""

import os
import random
import time
from pathlib import Path

from attacks.kills import writing
from attacks.tries import BrokenPromiseError, digests, forked, judged, songrank


def try_together(random: random.Random, place: Path, base: Path) -> None:
    """Two commands on the same output at the same time: each succeeds or says why, and the result is whole."""
    what = random.choice(("prepare", "train", "recommend", "tune"))
    words = writing(base)[what]
    reports = []
    for number in range(2):
        child = os.fork()
        if child == 0:
            try:
                time.sleep(random.random() * 0.1 * number)
                judged(forked(songrank(*words), place))
                os._exit(0)
            except BrokenPromiseError as failure:
                (place.parent / f"{place.name}.said").write_text(str(failure))
            os._exit(1)
        reports.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in reports]
    said = place.parent / f"{place.name}.said"
    if any(codes):
        raise BrokenPromiseError(f"{what} twice at once: {said.read_text() if said.exists() else codes}")
    if what == "prepare" and digests(place / "out") != digests(base / "data"):
        raise BrokenPromiseError("two preparations leave another data set")
    if what == "recommend" and (place / "out.csv").read_bytes() != (base / "best.csv").read_bytes():
        raise BrokenPromiseError("two commands leave another table")
    if (
        what == "train"
        and (place / "out" / "model.safetensors").read_bytes() != (base / "run0" / "model.safetensors").read_bytes()
    ):
        raise BrokenPromiseError("two trainings leave another model")
    if what == "tune" and (place / "out" / "best.yaml").read_bytes() != (base / "study" / "best.yaml").read_bytes():
        raise BrokenPromiseError("two searches leave another best recipe")
