"""The work of the benchmark's cells: all training pairs as a data set, a run, and EASE.

The directories of all cells are siblings, named by the keys of the cells.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from songrank.analysis.report.curves import chosen_epoch, read_history
from songrank.baselines import measure
from songrank.data import CatalogueSplit, Dataset, open_dataset
from songrank.data.content import Content, write_content, write_description
from songrank.io.files import write_whole
from songrank.io.json_files import read_json
from songrank.io.source import Job
from songrank.training.run import Run
from songrank.training.run_directory import RunDirectory, fingerprint, lists_fingerprint
from songrank_paper.runs import finish_run


def join(folder: Path, *, data: str, path: str) -> dict[str, Any]:
    """Write a data set whose training split is training and validation together, as prepared without validation.

    Args:
        folder: directory of the cell; the data set is ``data``.
        data: fingerprint of the data set.
        path: path of the data set.
    """
    dataset, place = open_dataset(path), folder / "data"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    splits = {"train": _pairs(dataset, "train", "validation"), "test": _pairs(dataset, "test")}
    content = Content(dataset.task, splits, dataset.query_ids, dataset.item_ids)
    info = write_content(place, content, name=dataset.name, options={"joined": data}, job=Job())
    write_description(place, info)
    return {"data": fingerprint(open_dataset(place))}


def _pairs(dataset: Dataset, *names: str) -> dict[str, Any]:
    """Items and labels of some splits as one, by query."""
    tables = [split.pairs for name in names if isinstance(split := dataset[name], CatalogueSplit)]
    _, order = torch.cat([table.row_of_entries() for table in tables]).sort(stable=True)
    columns = {name: torch.cat([table[name] for table in tables])[order].numpy() for name in ("item", "label")}
    return {"offsets": sum(table.offsets for table in tables).numpy(), **columns}  # type: ignore[union-attr]


def train(
    folder: Path,
    *,
    recipe: Mapping[str, Any],
    data: str,
    splits: Sequence[str],
    device: str,
    path: str = "",
    joined: str | None = None,
) -> dict[str, Any]:
    """Train a recipe, or resume a killed cell.

    Args:
        folder: directory of the cell; the run directory is ``run``.
        recipe: recipe as plain values, without data and device.
        data: fingerprint of the data set.
        splits: splits to evaluate at the end; no others are evaluated.
        device: ``"cpu"`` or ``"cuda"``.
        path: path of the data set.
        joined: key of the cell that wrote the data set, instead of ``path``.

    Returns:
        ``metrics`` by split, ``epochs`` by stage, the last up to the best checkpoint, ``epoch`` (their sum),
        ``seconds`` and ``epoch_seconds`` (the median of the last stage, with its evaluations on validation); or
        ``diverged``, the reason of the failure.
    """
    stamps: list[tuple[str, float]] = []

    def opened(run: Run) -> None:
        run.observe = lambda line: stamps.append((line["stage"], time.monotonic()))

    place = path if joined is None else str((folder.parent / joined / "data").absolute())
    lost = finish_run(folder, {**recipe, "data": place, "device": device}, data, splits, opened=opened)
    if lost is not None:
        return lost
    directory = RunDirectory(folder / "run")
    shutil.rmtree(directory.checkpoints, ignore_errors=True)
    lines = read_history(directory.path)
    last = lines[-1]["stage"]
    chosen = lines[chosen_epoch(lines, f"validation {recipe['validation']['metric']}") - 1]["epoch"]
    earlier = [line for line in lines if line["stage"] != last]
    took = [later - earlier for (stage, earlier), (_, later) in pairwise(stamps) if stage == last]
    return {
        "metrics": {split: read_json(directory.path / "evaluation" / f"{split}.json")["metrics"] for split in splits},
        "epochs": {"warm_up": len(earlier), "fine_tuning": chosen},
        "epoch": len(earlier) + chosen,
        "seconds": directory.notes()["seconds"],
        "epoch_seconds": round(median(took), 5) if took else None,
    }


def ease(folder: Path, *, data: str, whole: str, metrics: Sequence[str], path: str, joined: str) -> dict[str, Any]:
    """EASE with λ chosen on validation, fitted to all training pairs and evaluated on test.

    The evaluation is written like that of a run, to be compared with others.

    Args:
        folder: directory of the cell.
        data: fingerprint of the data set with validation.
        whole: fingerprint of the data set without.
        metrics: names of metrics; the first chooses λ.
        path: path of the data set with validation.
        joined: key of the cell that wrote the data set without.
    """
    tuned = measure("ease", open_dataset(path), "validation", select=metrics[0], metrics=metrics)
    dataset = open_dataset(folder.parent / joined / "data")
    begun = time.monotonic()
    found = measure("ease", dataset, "test", metrics=metrics, options=tuned.options).evaluation
    directory = RunDirectory(folder / "run")
    directory.path.mkdir(parents=True, exist_ok=True)
    config = {"model": {"name": "ease"}, "loss": {"name": "ease"}, "data": str(dataset.path), "seed": 0}
    write_whole(directory.config, json.dumps(config) + "\n")  # JSON is YAML
    directory.save_evaluation("test", found, lists_fingerprint(dataset, "test"))
    return {"metrics": {"test": found.values}, **tuned.options, "seconds": time.monotonic() - begun}
