"""Helpers that tests of several modules share."""

import random

PAPER = {
    "recommendation": ["movielens-20m", "netflix"],
    "search": ["mslr-web30k", "yahoo-ltr"],
    "labelling": ["eurlex-4k", "wiki10-31k"],
}


def sequences(file, users=12):
    rng = random.Random(0)
    lines = [" ".join(map(str, [user, *rng.sample(range(30), 6)])) for user in range(1, users + 1)]
    file.write_text("\n".join(lines) + "\n")
    return file
