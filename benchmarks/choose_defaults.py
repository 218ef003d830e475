"""Choice of the defaults of losses with memory, on validation data only. Results are in docs/defaults.md.

    cd benchmarks
    python choose_defaults.py prepare ml-1m.zip mq2008.zip --to data
    python choose_defaults.py catalogue data/ml-1m.npz --study offset --device cuda --out data/catalogue.jsonl
    python choose_defaults.py lists data/mq2008.npz --study offset --out data/lists.jsonl
    python choose_defaults.py report data/catalogue.jsonl data/lists.jsonl

Each finished run is a line of the output and is not run again. ``--shard 0/4`` selects every fourth seed and
configuration, so that several processes can share a study, each with its own output. A run is a warm-up with
``ListwiseCE``, then a new head and the loss of the study. Warm-up, head and slates depend only on the seed, so
configurations are compared seed by seed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from default_models import Config, Record, prepare
from default_tasks import Catalogue, Lists, unpack

# ---- configurations


def grid(**choices: list[Any]) -> list[Config]:
    """All combinations."""
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


def catalogue_studies() -> dict[str, list[Config]]:
    """Configurations by study; others are compared to the first one of each K and mode."""
    ksong: dict[str, list[Any]] = {"loss": ["k-song"], "k": [300, 20], "mode": ["theoretical", "practical"]}
    trackers = [("newton", rate, 0.1) for rate in (0.1, 0.05, 0.3, 1.0)]
    trackers += [("gradient", rate, 0.1) for rate in (0.01, 0.1, 1.0)]
    trackers += [("newton", 0.3, 0.3), ("newton", 0.1, 1.0), ("newton", 0.3, 1.0), ("newton", 1.0, 1.0)]
    trackers += [("quantile", 0.3, 0.1), ("quantile", 0.1, 1.0), ("quantile", 0.3, 1.0), ("quantile", 1.0, 1.0)]
    trackers += [("balanced", 0.1, 0.1), ("balanced", 0.3, 0.3)]
    fixed: dict[str, list[Any]] = {**ksong, "threshold_rate": [0.3], "threshold_gamma": [1.0]}
    offsets = [None, 0.0, 4.0, 16.0, 64.0, 256.0, 1024.0, "relevant", "relevant/4"]
    return {
        "labels": grid(loss=["song"], rank_offset=[64.0, 0.0]),
        "offset": [*grid(loss=["song"], rank_offset=offsets), {"loss": "listwise-ce"}],
        "tracking": [
            {**config, "threshold_step": step, "threshold_rate": rate, "threshold_gamma": gamma}
            for step, rate, gamma in trackers
            for config in grid(**ksong)
        ],
        "k-offset": grid(**fixed, rank_offset=[None, 0.0, 16.0, 64.0, 256.0]),
        "tau": grid(**fixed, tau1=[0.1, 0.03, 0.3, 1.0]),
        "selector": grid(**fixed, selector=["sigmoid", "smooth_step"], selector_scale=[2.0, 1.0, 5.0]),
        "margin": grid(loss=["song"], margin=[1.0, 0.5, 2.0, 3.0], gamma=[0.1, 0.3]),
        "defaults": [{"loss": "song"}, *grid(**ksong)],
    }


def list_studies() -> dict[str, list[Config]]:
    """Configurations for short lists, by study."""
    offsets = [None, 0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, "size/2", "relevant"]
    return {
        "offset": [*grid(loss=["song"], margin=[1.0], rank_offset=offsets), {"loss": "listwise-ce"}],
        "k-offset": grid(
            loss=["k-song"], k=[5], mode=["theoretical", "practical"], rank_offset=[None, 0.0, 16.0, 64.0]
        ),
        "margin": grid(loss=["song"], rank_offset=[None, 0.0, 16.0], margin=[1.0, 2.0, 3.0], gamma=[0.1, 0.3]),
        "tracking": [
            {"loss": "k-song", "k": 5, "threshold_step": step, "threshold_rate": rate, "threshold_gamma": gamma}
            for step, rate, gamma in (("newton", 0.1, 0.1), ("newton", 0.3, 1.0), ("balanced", 0.3, 0.3))
        ],
    }


# ---- running and reporting


def run_all(task: Catalogue | Lists, study: list[Config], args: argparse.Namespace, settings: Config) -> None:
    done = {_key(record) for record in _read([args.out])} if args.out.exists() else set()
    todo = [{"config": config, "seed": seed, **settings} for seed in args.seeds for config in study]
    for plan in todo[args.shard[0] :: args.shard[1]]:
        if _key(plan) in done:
            continue
        begin = time.perf_counter()
        record = {**plan, **task.run(plan["config"], plan["seed"]), "seconds": round(time.perf_counter() - begin, 2)}
        with args.out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        shown = {name: round(value, 5) for name, value in record["metrics"].items()}
        print(args.study, json.dumps(plan["config"]), plan["seed"], shown, f"{record['seconds']} s", flush=True)


def _key(record: Record) -> str:
    named = ("task", "config", "seed", "data", "labels", "warmup", "epochs")
    return json.dumps([record.get(name) for name in named], sort_keys=True)


def _read(files: list[Path]) -> list[Record]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def report(files: list[Path]) -> None:
    """A table per study: mean ± sd over seeds, and the difference to the first configuration, by seed.

    The last column is this difference with its standard error over users (means over seeds per user), if known.
    """
    studies: dict[str, dict[str, dict[int, Record]]] = defaultdict(lambda: defaultdict(dict))
    for record in sorted(_read(files), key=_place):
        title = " ".join(str(record.get(name, "")) for name in ("task", "data", "labels", "study", "warmup", "epochs"))
        studies[title][json.dumps(record["config"])][record["seed"]] = record
    for title, configs in studies.items():
        print(f"\n## {title}")
        names = list(next(iter(next(iter(configs.values())).values()))["metrics"])
        first: dict[Any, dict[int, Record]] = {}
        for text, runs in configs.items():
            config = json.loads(text)
            base = first.setdefault((config.get("k"), config.get("mode")), runs)
            cells = [_cell(name, runs, base) for name in names]
            shared = sorted(set(runs) & set(base))
            if "per_query" in runs[shared[0]] and runs is not base:
                gaps = [unpack(runs[s]["per_query"]) - unpack(base[s]["per_query"]) for s in shared]
                gap = np.mean(gaps, axis=0)
                cells.append(f"{gap.mean():+.4f} ± {gap.std() / math.sqrt(len(gap)):.4f}")
            print(" | ".join([text, str(len(runs)), *cells]))
            for line in _tracking_lines(runs):
                print("    " + line)


def _place(record: Record) -> tuple[str, str, int]:
    """The position of a record in its study."""
    study = (list_studies() if record["task"] == "lists" else catalogue_studies())[record["study"]]
    return record["task"] + record["data"], record["study"], study.index(record["config"])


def _cell(name: str, runs: dict[int, Record], base: dict[int, Record]) -> str:
    values = [run["metrics"][name] for run in runs.values()]
    text = f"{name} {np.mean(values):.4f} ± {np.std(values, ddof=min(1, len(values) - 1)):.4f}"
    shared = sorted(set(runs) & set(base))
    if runs is base or not shared:
        return text
    gaps = [runs[seed]["metrics"][name] - base[seed]["metrics"][name] for seed in shared]
    return f"{text} ({np.mean(gaps):+.4f} ± {np.std(gaps, ddof=min(1, len(gaps) - 1)):.4f})"


def _tracking_lines(runs: dict[int, Record]) -> Iterator[str]:
    tables = [run.get("tracking") or [] for run in runs.values()]
    for rows in zip(*tables, strict=True):
        means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0] if name != "epoch"}
        yield f"epoch {rows[0]['epoch']}: " + ", ".join(f"{name} {value:.3f}" for name, value in means.items())


def _shard(text: str) -> tuple[int, int]:
    part, count = text.split("/")
    return int(part), int(count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("prepare", help="read ml-1m.zip, ml-100k.zip, mq2008.zip or mq2007-agg.zip")
    command.add_argument("archives", type=Path, nargs="+")
    command.add_argument("--to", type=Path, default=Path("benchmarks/data"))
    for name, studies, warmup, epochs in (
        ("catalogue", catalogue_studies(), 60, 180),
        ("lists", list_studies(), 20, 60),
    ):
        command = commands.add_parser(name)
        command.add_argument("data", type=Path, help="output of prepare")
        command.add_argument("--study", choices=list(studies), required=True)
        command.add_argument("--out", type=Path, required=True, help="JSON lines file to append to")
        command.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
        command.add_argument("--shard", type=_shard, default=(0, 1), help="i/n")
        command.add_argument("--warmup", type=int, default=warmup)
        command.add_argument("--epochs", type=int, default=epochs)
        command.add_argument("--labels", choices=["rating", "one"], default="rating")
        command.add_argument("--device", default="cpu")
    command = commands.add_parser("report", help="print tables of outputs")
    command.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()

    if args.command == "prepare":
        return prepare(args.archives, args.to)
    if args.command == "report":
        return report(args.files)
    torch.backends.cuda.matmul.allow_tf32 = True
    with np.load(args.data) as stored:
        arrays = {name: stored[name] for name in stored.files}
    settings = {"task": args.command, "data": args.data.stem, "study": args.study}
    settings |= {"warmup": args.warmup, "epochs": args.epochs}
    if args.command == "lists":
        return run_all(Lists(arrays, args.warmup, args.epochs), list_studies()[args.study], args, settings)
    task = Catalogue(arrays, args.labels, args.device, args.warmup, args.epochs)
    run_all(task, catalogue_studies()[args.study], args, {**settings, "labels": args.labels})


if __name__ == "__main__":
    main()
