"""Mutated and hostile recipes."""

import random
import time
from pathlib import Path

from attacks.mutations import mutated
from attacks.tries import BrokenPromiseError, run

RECIPE = """data: data
model: {name: matrix-factorisation, dim: 4}
batch: {queries: 16, relevant: 4, irrelevant: 8}
warm_up: {epochs: 1}
loss: {name: song, gamma: 0.5}
fine_tuning: {epochs: 1, learning_rate: 0.01, decay: {1: 0.5}}
validation: {metric: ndcg@10, every: 1}
device: cpu
"""


def try_recipes(random: random.Random, place: Path, base: Path) -> None:
    """Mutated and hostile recipes: one line, quickly."""
    how, text = random.randrange(10), RECIPE.encode()
    if how == 0:
        depth = random.choice((50, 1000, 100_000))
        text = b"model: " + b"[" * depth + b"]" * depth
    elif how == 1:
        lines = [
            "a0: &a0 [x, x]",
            *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, random.choice((5, 30)))),
        ]
        text = "\n".join(lines).encode() + b"\n" + text
    elif how == 2:
        text += "".join(f"key{n}: {n}\n" for n in range(random.choice((50, 30_000)))).encode()
    elif how == 3:
        text = text.replace(b"dim: 4", b"hidden: [" + b"9, " * random.choice((10, 100_000)) + b"9]")
    elif how == 4:
        lines = ["b0: &b0 {x: 1}", *(f"b{n}: &b{n} {{<<: [*b{n - 1}, *b{n - 1}], y{n}: 2}}" for n in range(1, 25))]
        text = "\n".join(lines).encode() + b"\n" + text
    else:
        text = mutated(text, random)
    (place / "recipe.yaml").write_bytes(text)
    started = time.monotonic()
    done = run(place, "train", "recipe.yaml", f"data={place / 'nowhere'}", "-o", "out", "-q")
    if not done.refused:
        raise BrokenPromiseError("trains on a data set that does not exist")
    if time.monotonic() - started > 30:
        raise BrokenPromiseError("takes more than 30 s")
    if (place / "out").exists():
        raise BrokenPromiseError("leaves a run directory")
