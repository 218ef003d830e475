"""Files in the format of MovieLens-20M with its exact counts and arbitrary content."""

import zipfile
from pathlib import Path

import numpy as np
import polars as pl
from shapes import MOVIELENS_20M

MIN_RATINGS = 20


def activity(users: int, items: int, pairs: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of ratings per user: at least 20, long-tailed, with the sum ``pairs``."""
    weight = rng.lognormal(0, 1.3, users)
    counts = MIN_RATINGS + np.floor(weight / weight.sum() * (pairs - users * MIN_RATINGS)).astype(np.int64)
    counts = np.minimum(counts, items // 3)
    counts[rng.permutation(users)[: (pairs - counts.sum()) % users]] += 1
    even: np.ndarray = counts + (pairs - counts.sum()) // users
    return even


def write_zip(path: Path, users: int, items: int, pairs: int, seed: int = 0) -> None:
    """An archive with ``ml-20m/ratings.csv``, ordered by user and movie, but not by time."""
    rng = np.random.default_rng(seed)
    counts = activity(users, items, pairs, rng)
    movie_ids = np.sort(rng.permutation(131_262)[:items] + 1)
    plain = path.with_suffix(".csv")
    with plain.open("wb") as file:
        file.write(b"userId,movieId,rating,timestamp\n")
        for first in range(0, users, 4096):
            block = counts[first : first + 4096]
            user = np.repeat(np.arange(first, first + block.shape[0]), block)
            within = np.arange(user.shape[0]) - np.repeat(np.cumsum(block) - block, block)
            item = (user * 7919 + within * 3) % items  # distinct per user, since no user rates a third of all items
            rating = rng.integers(1, 11, user.shape[0]) / 2
            time = rng.integers(789_652_009, 1_427_784_002, user.shape[0]) // 60 * 60  # many equal times
            table = pl.DataFrame({"u": user + 1, "m": movie_ids[item], "r": rating, "t": time})
            table.sort("u", "m").write_csv(file, include_header=False, float_precision=1)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.write(plain, "ml-20m/ratings.csv")
    plain.unlink()


if __name__ == "__main__":
    import sys

    write_zip(Path(sys.argv[1]), *MOVIELENS_20M)
