"""Preparation of an interaction log on disk, compared with preparation in memory: time, peak memory and bytes.

python benchmarks/prepare_large.py                              # 20 million rows, CSV and Parquet, limit 1 GiB
python benchmarks/prepare_large.py --rows 100000000 --limit 2GiB --only disk

Users are strings, items are integers of a long-tailed distribution, every tenth pair is repeated. Each preparation runs
in a process of its own. Peak memory is that of the process, peak disk that of the directory with the result and all
temporary files.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl

_BLOCK = 1 << 20
_CHILD = """
import resource, sys, time
from songrank.data import prepare
source, target, limit = sys.argv[1:]
start = time.perf_counter()
options = {"min_interactions": 5, "min_per_item": 5}
prepare("interactions", source, target, memory_limit=None if limit == "none" else limit, **options)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def write_log(folder: Path, rows: int, suffix: str) -> Path:
    """A log in time order, written in blocks."""
    users, items, file = rows // 100, max(100, rows // 1000), folder / f"log{suffix}"
    parts = []
    for number, start in enumerate(range(0, rows, _BLOCK)):
        rng, count = np.random.default_rng(number), min(_BLOCK, rows - start)
        user, item = rng.integers(0, users, count), (items * rng.random(count) ** 3).astype(np.int64)
        again = count // 10
        user[-again:], item[-again:] = user[:again], item[:again]
        columns = {"user": user, "item": item * 17 + 1000, "rating": rng.integers(1, 6, count)}
        frame = pl.DataFrame({**columns, "time": np.arange(start, start + count) // 3 + 1_500_000_000})
        frame = frame.with_columns(("user-" + pl.col("user").cast(pl.String)).alias("user"))
        if suffix == ".csv":
            with file.open("ab") as stream:
                frame.write_csv(stream, include_header=start == 0)
        else:
            parts.append(folder / f"part-{number}.parquet")
            frame.write_parquet(parts[-1])
    if parts:
        pl.scan_parquet(parts).sink_parquet(file)
        for part in parts:
            part.unlink()
    return file


def measure(source: Path, folder: Path, limit: str) -> tuple[float, float, float, str]:
    """Seconds, peak GiB of memory, peak GiB of disk, and a checksum of the result."""
    folder.mkdir()
    command = [sys.executable, "-c", _CHILD, str(source), str(folder / "set"), limit]
    most = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            most = max(most, _size(folder))
            time.sleep(0.2)
        assert process.stdout is not None
        answer = process.stdout.read()
    if process.returncode:
        raise SystemExit(f"preparation failed with exit code {process.returncode}")
    seconds, memory = map(float, answer.split())
    digest = hashlib.sha256()
    for file in sorted((folder / "set").iterdir()):
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    shutil.rmtree(folder)
    return seconds, memory, most / 2**30, digest.hexdigest()[:12]


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):  # it was removed meanwhile
            total += file.stat().st_size if file.is_file() else 0
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--limit", default="1GiB")
    parser.add_argument("--only", choices=("disk", "memory"))
    parser.add_argument("--formats", nargs="+", choices=("csv", "parquet"), default=("csv", "parquet"))
    parser.add_argument("--folder", type=Path, help="directory for the files (default: a temporary one)")
    options = parser.parse_args()
    limits = {"disk": options.limit, "memory": "none"}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        print(f"{options.rows:,} rows; disk: limit {options.limit}")
        print(f"{'':16}{'seconds':>9}{'peak memory':>13}{'bytes/row':>11}{'peak disk':>11}{'bytes/row':>11}  result")
        for suffix in options.formats:
            source = write_log(folder, options.rows, f".{suffix}")
            for way in [options.only] if options.only else limits:
                seconds, memory, disk, digest = measure(source, folder / way, limits[way])
                per_row = [f"{amount * 2**30 / options.rows:11.0f}" for amount in (memory, disk)]
                sizes = f"{memory:9.2f} GiB{per_row[0]}{disk:7.2f} GiB{per_row[1]}"
                print(f"{suffix + ', ' + way:16}{seconds:9.1f}{sizes}  {digest}", flush=True)
            source.unlink()


if __name__ == "__main__":
    main()
