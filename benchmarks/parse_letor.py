"""Time to read a LETOR file, compared with scikit-learn and, if installed, XGBoost and LightGBM."""

import argparse
import importlib
import re
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from songrank.data.parsers.svmlight import Rows, parse_rows

load_svmlight_file = importlib.import_module("sklearn.datasets").load_svmlight_file  # has no types


def lines_of(path: Path, member: str | None) -> bytes:
    """The bytes of a plain file, or of a member of a zip archive: by default its first text file."""
    if not zipfile.is_zipfile(path):
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        return archive.read(member or next(name for name in archive.namelist() if name.endswith(".txt")))


def readers(path: Path, without_query: Path) -> dict[str, Callable[[], Any]]:
    """A function per library, from the file on disk to numbers in memory."""
    steps: dict[str, Callable[[], Any]] = {
        "songrank": lambda: [parse_rows(path.read_bytes(), file=path.name)],
        "scikit-learn": lambda: load_svmlight_file(str(path), query_id=True, zero_based=False),
    }
    if xgboost := installed("xgboost"):
        steps["XGBoost"] = lambda: xgboost.DMatrix(f"{path}?format=libsvm")
    if lightgbm := installed("lightgbm"):  # supports neither qid: nor comments, and also bins the values
        steps["LightGBM"] = lambda: lightgbm.Dataset(str(without_query), params={"verbose": -1}).construct()
    return steps


def installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def best(steps: Mapping[str, Callable[[], Any]], rounds: int) -> tuple[dict[str, float], dict[str, Any]]:
    """The shortest time of each in alternating rounds, and its result or error."""
    results: dict[str, Any] = {}
    seconds = dict.fromkeys(steps, float("inf"))
    for _ in range(rounds):
        for name, step in steps.items():
            results.pop(name, None)
            start = time.perf_counter()
            try:
                results[name] = step()
            except Exception as error:  # for example a library that does not support NULL
                results[name] = error
                continue
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds, results


def assert_same(blocks: list[Rows], expected: tuple[Any, ...]) -> None:
    """Whether the values equal those of scikit-learn in float64, rounded."""
    features, label, query = expected
    pairs = {
        "label": label.astype(np.float32),
        "index": features.indices + 1,
        "value": features.data.astype(np.float32),
        **({} if blocks[0].query is None else {"query": query}),
    }
    for name, column in pairs.items():
        np.testing.assert_array_equal(np.concatenate([getattr(rows, name) for rows in blocks]), column, name)
    lengths = np.concatenate([np.diff(rows.offsets) for rows in blocks])
    np.testing.assert_array_equal(lengths, np.diff(features.indptr), "offsets")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="a LETOR file or zip archive (default: MSLR's sample)")
    parser.add_argument("--member", help="which file of the archive")
    parser.add_argument("--data", type=Path, default=Path(), help="directory with mslr-web10k-sample.zip")
    parser.add_argument("--megabytes", type=int, default=50, help="size to which the file is repeated")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    source = options.file or options.data / "mslr-web10k-sample.zip"
    data = lines_of(source, options.member)
    data *= -(-options.megabytes * 10**6 // len(data))
    warnings.filterwarnings("ignore", message=".*Text file input has been deprecated")
    with tempfile.TemporaryDirectory() as folder:
        path, without_query = Path(folder, "rows.txt"), Path(folder, "without_query.txt")
        path.write_bytes(data)
        without_query.write_bytes(re.sub(rb"[ \t]qid:\S*|#[^\n]*", b"", data))
        seconds, results = best(readers(path, without_query), options.rounds)
    print(f"{source.name} to {len(data) / 1e6:.0f} MB, best of {options.rounds}")
    for name, value in seconds.items():
        if isinstance(results[name], Exception):
            print(f"  {name:14s}cannot read it: {str(results[name]).strip()[:60]}")
        else:
            ratio = value / seconds["songrank"]
            print(f"  {name:14s}{value:8.3f} s {len(data) / 1e6 / value:8.0f} MB/s {ratio:7.2f} × songrank's time")
    if not isinstance(results["scikit-learn"], Exception):
        assert_same(results["songrank"], results["scikit-learn"])
        print("  values of songrank equal those of scikit-learn, rounded to float32")


if __name__ == "__main__":
    main()
