"""Mutated inputs of every reader."""

import gzip
import io
import random
import zipfile
from pathlib import Path

from attacks.mutations import mutated
from attacks.sources import INPUTS
from attacks.tries import BrokenPromiseError, forked, judged, run
from songrank.data import open_dataset


def try_inputs(random: random.Random, place: Path, base: Path) -> None:
    """Mutated inputs of every reader: a data set, or one line and nothing."""
    name = random.choice(list(INPUTS))
    file, content, options = INPUTS[name]
    data, given = mutated(content.encode(), random), place / file
    if random.random() < 0.15:
        given, data = place / (file + ".gz"), mutated(gzip.compress(data), random)
    elif random.random() < 0.1:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"set/{file}", data)
        given, data = place / "set.zip", mutated(stream.getvalue(), random)
    given.write_bytes(data)
    done = run(place, "data", "prepare", name, given, "-o", "out", *options, "-q")
    left = sorted(entry.name for entry in place.iterdir() if entry != given)
    if left != ([] if done.refused else ["out"]):
        raise BrokenPromiseError(f"leaves {left} after exit code {done.code}")
    if not done.refused and judged(forked(lambda: open_dataset(place / "out"), place)).refused:
        raise BrokenPromiseError("a data set that cannot be opened")
