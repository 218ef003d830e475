"""Cost of data preparation: MovieLens-1M compared with pandas, memory for 20 million ratings, and opening a data set.

python benchmarks/prepare_data.py --data DIRECTORY    # with ml-1m.zip; by default a file of that shape is generated
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pandas  # type: ignore[import-untyped, unused-ignore]
from movielens_files import write_zip
from shapes import MOVIELENS_20M
from timing import medians, table

from songrank.data import open_dataset, prepare
from songrank.data.readers.movielens import COLONS, parse_ratings
from songrank.io.source import Job, Source

MOVIELENS_1M = (6_040, 3_706, 1_000_209)


def ratings_dat(folder: Path, data: Path | None) -> Path:
    """ratings.dat of MovieLens-1M, or a file of its format and size."""
    path = folder / "ratings.dat"
    if data is not None and (data / "ml-1m.zip").exists():
        with zipfile.ZipFile(data / "ml-1m.zip") as archive:
            path.write_bytes(archive.read("ml-1m/ratings.dat"))
    else:
        write_zip(folder / "ml-1m.zip", *MOVIELENS_1M)
        with zipfile.ZipFile(folder / "ml-1m.zip") as archive:
            lines = archive.read("ml-20m/ratings.csv").partition(b"\n")[2]
        path.write_bytes(lines.replace(b",", b"::"))
    return path


def with_pandas(path: Path) -> tuple[np.ndarray, ...]:
    """The usual way; a separator of two characters needs the Python engine of pandas."""
    names = ["user", "movie", "rating", "time"]
    frame = pandas.read_csv(path, sep="::", engine="python", names=names)
    return tuple(frame[name].to_numpy() for name in names)


def with_songrank(path: Path) -> tuple[np.ndarray, ...]:
    blocks = [parse_ratings(block, COLONS) for block in Source(path).blocks(Job())]
    return tuple(np.concatenate(parts) for parts in zip(*blocks, strict=True))


def compare_parsing(path: Path, folder: Path) -> None:
    for ours, theirs in zip(with_songrank(path), with_pandas(path), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    steps = {
        "pandas, sep='::'": lambda: with_pandas(path),
        "songrank, the same columns": lambda: with_songrank(path),
        "songrank, full preparation": lambda: prepare("movielens-1m", path, folder / "ml-1m", overwrite=True),
    }
    table("MovieLens-1M, ratings.dat (equal columns)", medians(steps, rounds=5, warm_up=1), "pandas, sep='::'")


def prepare_20m(folder: Path) -> None:
    archive, target = folder / "ml-20m.zip", folder / "ml-20m"
    write_zip(archive, *MOVIELENS_20M)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "songrank.cli", "data", "prepare", "movielens-20m", archive, "-o", target], check=True
    )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"\n20,000,263 ratings from a zip: {time.perf_counter() - start:.1f} s, peak memory {peak:.2f} GiB")


def opening(folder: Path) -> None:
    def open_and_map(name: str) -> None:
        dataset = open_dataset(folder / name)
        for split in dataset:
            dataset[split].label[:1].item()
        dataset.item_ids[0]

    steps = {f"open {name} and map every array": lambda name=name: open_and_map(name) for name in ("ml-1m", "ml-20m")}
    table("Opening a prepared data set", medians(steps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="directory with ml-1m.zip")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compare_parsing(ratings_dat(folder, options.data), folder)
        prepare_20m(folder)
        opening(folder)


if __name__ == "__main__":
    main()
