"""DocumentRanker's defaults against LGBMRanker's, on LightGBM's example, MQ2008 and MQ2007-agg.

    python benchmarks/search_defaults.py ../shared/data -o runs/search-defaults.json      # pip install lightgbm

Both get the same arrays, X, y and group, and no evaluation set. Fold k of a LETOR set trains on parts k to k + 2 and
tests on part k + 4. The difference is paired by query, averaged over seeds; its interval is a 95 % normal interval
over queries. ``--validation`` measures part k + 3 instead, and five-fold cross-validation over the training queries of
LightGBM's example: what the defaults are chosen on.
"""

import argparse
import importlib
import io
import json
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from songrank import DocumentRanker
from songrank.metrics import evaluate_lists

METRICS = ("ndcg@1", "ndcg@5", "ndcg@10")
SETS = {"LightGBM's example": "lightgbm-rank.zip", "MQ2008": "mq2008.zip", "MQ2007-agg": "mq2007-agg.zip"}
Array = np.ndarray[Any, Any]
Part = tuple[Array, Array, Array]  # X, y, group


def read_rows(text: bytes, groups: bytes | None = None) -> Part:
    """Rows of svmlight text, NaN for NULL; groups are consecutive rows of equal qid, or given."""
    rows = [line.split(b"#")[0].split() for line in text.splitlines()]
    queries = [row[1] for row in rows] if groups is None else []
    cells = [[cell.split(b":") for cell in row[1 if queries == [] else 2 :]] for row in rows]
    data = np.zeros((len(rows), 1 + max(int(index) for row in cells for index, _ in row)), np.float32)
    for row, values in enumerate(cells):
        for index, value in values:
            data[row, int(index)] = np.nan if value == b"NULL" else float(value)
    if groups is not None:
        lengths = np.loadtxt(io.BytesIO(groups), dtype=np.int64)
    else:
        starts = [row for row in range(len(rows)) if row == 0 or queries[row] != queries[row - 1]]
        lengths = np.diff([*starts, len(rows)])
    return data[:, int(groups is None) :], np.array([float(row[0]) for row in rows]), lengths


def chosen(part: Part, queries: Array) -> Part:
    """These queries of a part."""
    ends = np.cumsum(part[2])
    rows = np.concatenate([np.arange(ends[query] - part[2][query], ends[query]) for query in queries])
    return part[0][rows], part[1][rows], part[2][queries]


def joined(parts: list[Part]) -> Part:
    first, second, third = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return first, second, third


def pairs(archive: Path, validation: bool) -> Iterator[tuple[Part, Part]]:
    """Training and held-out parts of each fold."""
    with zipfile.ZipFile(archive) as files:
        names = sorted(files.namelist())
        if "rank.train" in names:
            train, test = (
                read_rows(files.read(f"rank.{at}"), files.read(f"rank.{at}.query")) for at in ("train", "test")
            )
            if not validation:
                yield train, test
                return
            order = np.random.default_rng(0).permutation(len(train[2]))
            for fold in range(5):
                yield chosen(train, np.setdiff1d(order, order[fold::5])), chosen(train, order[fold::5])
            return
        parts = [read_rows(files.read(name)) for name in names if name.endswith(".txt")]
    for fold in range(5):
        held_out = parts[(fold + (3 if validation else 4)) % 5]
        yield joined([parts[(fold + at) % 5] for at in range(3)]), held_out


def per_query(scores: Array, held_out: Part) -> Array:
    """The metrics [metrics, queries] of queries with a relevant document."""
    lengths = torch.from_numpy(held_out[2])
    told: dict[str, Any] = {"lengths": lengths, "metrics": METRICS, "ties": "pessimistic", "empty": "skip"}
    found = evaluate_lists(torch.from_numpy(np.array(scores, np.float64)), torch.from_numpy(held_out[1]), **told)
    starts = np.concatenate([[0], np.cumsum(held_out[2])[:-1]])
    some = np.add.reduceat(held_out[1], starts) > 0
    values = np.stack([found.per_query[metric].numpy() for metric in METRICS])
    return values[:, some] if values.shape[1] == some.shape[0] else values


def fit(method: str, lightgbm: Any, train: Part, held_out: Part, seed: int) -> tuple[Array, float]:
    """Scores of the held-out documents, and the seconds of the fit."""
    data, labels, group = train
    begun = time.perf_counter()
    if method == "LGBMRanker":
        made = lightgbm.LGBMRanker(random_state=seed, verbose=-1, n_jobs=torch.get_num_threads())
        made.fit(data, labels.astype(int), group=group)
        return made.predict(held_out[0]), time.perf_counter() - begun
    ranker = DocumentRanker(random_state=seed, device="cpu", verbose=0).fit(data, labels, group=group)
    seconds = time.perf_counter() - begun
    return ranker.predict(held_out[0], group=held_out[2]), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="directory of the archives")
    parser.add_argument("-o", "--output", type=Path, help="JSON file of the results")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--validation", action="store_true", help="measure on validation parts")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    try:
        lightgbm: Any = importlib.import_module("lightgbm")
    except ImportError:
        sys.exit("LightGBM is not installed: pip install lightgbm")
    torch.set_num_threads(options.threads)
    results = []
    print(f"| set | method | {' | '.join(METRICS)} | s per fit |\n|---|---|---|---|---|---|")
    for name, archive in SETS.items():
        folds = list(pairs(options.data / archive, options.validation))
        found: dict[str, Array] = {}
        for method in ("DocumentRanker", "LGBMRanker"):
            runs = [[fit(method, lightgbm, *fold, seed) for fold in folds] for seed in range(options.seeds)]
            values = [[per_query(run[0], fold[1]) for run, fold in zip(row, folds, strict=True)] for row in runs]
            found[method] = np.mean([np.concatenate(row, axis=1) for row in values], 0)
            seconds = float(np.median([run[1] for row in runs for run in row]))
            by_fold = np.mean([[part.mean(1) for part in row] for row in values], (0, 1)).tolist()
            results.append({"set": name, "method": method, "values": by_fold, "seconds": seconds})
            print(
                f"| {name} | {method} | {' | '.join(f'{value:.4f}' for value in by_fold)} | {seconds:.2f} |", flush=True
            )
        apart = found["DocumentRanker"] - found["LGBMRanker"]
        mean, error = apart.mean(1), 1.96 * apart.std(1, ddof=1) / np.sqrt(apart.shape[1])
        shown = [f"{m:+.4f} [{m - e:+.4f}, {m + e:+.4f}]" for m, e in zip(mean, error, strict=True)]
        results.append({"set": name, "difference": mean.tolist(), "half_width": error.tolist()})
        print(f"| {name} | Δ, {apart.shape[1]} queries | {' | '.join(shown)} | |", flush=True)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
