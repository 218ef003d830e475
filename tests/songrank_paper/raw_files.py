"""Small files in the formats of the paper's data sets."""

import random


def movielens_20m(folder, users=25, ratings=8):
    """``ml-20m/ratings.csv``, as it is published."""
    rng = random.Random(1)
    (folder / "ml-20m").mkdir(parents=True)
    lines = ["userId,movieId,rating,timestamp"]
    for user in range(1, users + 1):
        for movie in rng.sample(range(1, 61), ratings):
            lines.append(f"{user},{movie},{rng.randint(1, 10) / 2},{1_112_486_027 + rng.randint(0, 10**6)}")
    (folder / "ml-20m" / "ratings.csv").write_text("\n".join(lines) + "\n")
    return folder / "ml-20m"


def mslr(folder, queries=(10, 4, 4), features=136):
    """``Fold1/train.txt``, ``vali.txt`` and ``test.txt``, as they are published."""
    rng = random.Random(2)
    (folder / "Fold1").mkdir(parents=True)
    number = 1
    for name, count in zip(("train", "vali", "test"), queries, strict=True):
        lines = []
        for _ in range(count):
            for _ in range(rng.randint(4, 9)):
                label = rng.randint(0, 4)
                words = " ".join(f"{at}:{label * (at % 3) + rng.random():.4f}" for at in range(1, features + 1))
                lines.append(f"{label} qid:{number} {words}")
            number += 15
        (folder / "Fold1" / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return folder
