"""Folders of finished runs, read back for comparison: what was trained, and how each query fared.

They are read raw and not as recipes, so that other tools can write such folders too. Of a folder three files matter:
``config.yaml``, ``evaluation/SPLIT.json`` and ``evaluation/SPLIT.safetensors``.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from songrank.baselines.evaluate import Measured
from songrank.core.errors import DataError, UserError, first_line, shown
from songrank.data import Dataset
from songrank.io.arrays import read_arrays
from songrank.io.json_files import read_json
from songrank.metrics.comparison import Fold

POLICIES = ("ties", "gain", "empty_policy", "candidates")
_NOT_THE_METHOD = {"seed", "data", "prepare", "device", "title", "description", "notes", "output", "evaluation"}
_NOT_THE_METHOD |= {"threads", "workers", "deterministic"}
_DAMAGED = "leave this run out, or train it again"


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """One run and its evaluation on one split.

    ``per_query`` has one float64 value per query for each metric, NaN where the mean leaves a query out.
    """

    path: Path
    config: dict[str, Any]
    metrics: dict[str, float]
    per_query: dict[str, Tensor]
    queries: int
    empty: int
    policies: dict[str, Any]
    lists_sha256: str

    @property
    def seed(self) -> int:
        """The seed it was trained with."""
        return int(self.config["seed"])


@dataclass(frozen=True, eq=False)
class Method:
    """Runs that differ in nothing but their seeds and their data, under a label that tells them from the others.

    A baseline was ``measured`` on the data of each of ``runs``; it has no run directories.
    """

    label: str
    runs: tuple[FinishedRun, ...]
    measured: tuple[Measured, ...] = ()

    @property
    def places(self) -> list[Path]:
        """The folders of its runs."""
        return [] if self.measured else [run.path for run in self.runs]

    def folds(self, metric: str) -> list[Fold]:
        """Values of one metric on each data set, in the order of their checksums; seeds in order."""
        folds = []
        for data in sorted({run.lists_sha256 for run in self.runs}):
            runs = sorted((run for run in self.runs if run.lists_sha256 == data), key=lambda run: run.seed)
            folds.append(Fold(torch.stack([run.per_query[metric] for run in runs]), tuple(run.seed for run in runs)))
        return folds


def find_runs(places: Iterable[Path]) -> list[Path]:
    """Folders of runs; a folder without config.yaml stands for all folders in it that have one."""
    found: dict[Path, Path] = {}
    for place in places:
        if not os.path.isdir(place):  # unlike Path's, this asks no permission
            what = "is no folder" if os.path.exists(place) else "does not exist"
            raise DataError(what, "expected a folder that `songrank train` wrote", file=str(place))
        inside = [place]
        if not os.path.exists(place / "config.yaml"):
            inside = sorted(file.parent for file in place.glob("*/config.yaml"))
        if not inside:
            fix = "expected a folder that `songrank train` wrote, or a folder of such folders"
            raise DataError("has no config.yaml", fix, file=str(place))
        for run in inside:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def how_to_finish(path: Path) -> str:
    """What to do about a run that was not evaluated: one whose training failed would fail again."""
    with suppress(DataError):
        if read_json(path / "run.json").get("status") == "failed":
            return "its training failed (run.json says why): train it again with other settings, or leave it out"
    return f"finish it with `songrank train --resume {path}`"


def read_run(path: Path, split: str = "test") -> FinishedRun:
    """A finished run with its evaluation on one split, or a ``DataError`` that says what is wrong with it."""
    config = _read_config(path / "config.yaml")
    file = path / "evaluation" / f"{split}.json"
    if not os.path.exists(file):
        others = sorted(other.stem for other in file.parent.glob("*.json"))
        fix = f"it has {', '.join(others)}" if others else how_to_finish(path)
        raise DataError(f"has no evaluation of the {split} split", fix, file=str(path))
    try:
        info, values = read_json(file), read_arrays(file.with_suffix(".safetensors"))
    except DataError as error:
        raise DataError(error.what, _DAMAGED, file=error.file) from None
    metrics = _expect(file, info, "metrics", dict)
    queries = _expect(file, info, "queries", int)
    for metric in metrics:
        _check_values(file.with_suffix(".safetensors"), metric, values.get(metric), queries)
    return FinishedRun(
        path=path,
        config=config,
        metrics=metrics,
        per_query={metric: values[metric].double() for metric in metrics},
        queries=queries,
        empty=_expect(file, info, "empty", int),
        policies={key: _expect(file, info, key, (str, int)) for key in POLICIES},
        lists_sha256=_expect(file, info, "lists_sha256", str),
    )


def check_lists(run: FinishedRun, dataset: Dataset, split: str) -> None:
    """Raise if a data set does not hold the lists that a run was evaluated on."""
    from songrank.training.run_directory import lists_fingerprint  # not needed, and slow, where runs are only read

    if split not in dataset or lists_fingerprint(dataset, split) != run.lists_sha256:
        fix = "name the data set that it was evaluated on with --data"
        raise DataError(f"holds other lists than {run.path} was evaluated on", fix, file=str(dataset.path))


def group_runs(runs: Sequence[FinishedRun]) -> list[Method]:
    """Put runs of the same method together, in the order in which the methods first appear.

    A method's label is the name of its loss, where that tells it from the others; else the model's name comes before
    it, and what else differs comes after it. Runs that cannot be compared fairly are refused with a ``DataError``.
    """
    groups: dict[frozenset[tuple[str, str]], list[FinishedRun]] = {}
    for run in runs:
        groups.setdefault(frozenset(_method(run).items()), []).append(run)
    labels = _labels([group[0] for group in groups.values()])
    methods = [Method(label, tuple(group)) for label, group in zip(labels, groups.values(), strict=True)]
    _check_policies(runs)
    _check_data(methods)
    _check_queries(runs)
    return methods


def _read_config(file: Path) -> dict[str, Any]:
    import yaml

    try:
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", "check path and permissions", file=str(file)) from None
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise DataError(f"is not YAML ({error.problem})", _DAMAGED, file=str(file), line=line) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"is not YAML ({first_line(error)})", _DAMAGED, file=str(file)) from None
    if not isinstance(config, dict):
        raise DataError("holds no mapping", "expected keys such as model, loss, data and seed", file=str(file))
    for key in ("model", "loss"):
        _expect(file, _expect(file, config, key, dict), "name", str, f"{key}.name")
    _expect(file, config, "seed", int)
    return config


def _expect(file: Path, content: Mapping[str, Any], key: str, kind: Any, title: str | None = None) -> Any:
    """The value of a key that has to be there and be of this kind."""
    value = content.get(key)
    if isinstance(value, kind) and not isinstance(value, bool):
        return value
    names = {dict: "a mapping", int: "a whole number", str: "a text"}
    found = f"{title or key} is {shown(value)}" if key in content else f"has no {title or key}"
    raise DataError(found, f"expected {names.get(kind, 'a text or a whole number')}", file=str(file))


def _check_values(file: Path, metric: str, values: Tensor | None, queries: int) -> None:
    if values is None:
        raise DataError(f"holds no values of {metric}", _DAMAGED, file=str(file))
    if values.shape != (queries,):
        found = f"{metric} has shape {list(values.shape)}, and the evaluation counts {queries:,} queries"
        raise DataError(found, _DAMAGED, file=str(file))
    if values.isinf().any():
        raise DataError(f"{metric} has infinite values", _DAMAGED, file=str(file))


def _method(run: FinishedRun) -> dict[str, str]:
    """The configuration by dotted keys, values as JSON, without what says nothing about the method."""
    from songrank.training.config.recipe import Recipe

    config = run.config
    with suppress(UserError):  # of another tool; those of earlier songrank versions are the same method
        config = Recipe.read(config).model_dump(mode="json")
    kept = {key: value for key, value in config.items() if key not in _NOT_THE_METHOD}
    told = {key: value for key, value in flat(kept).items() if value is not None and key.rpartition(".")[2] != "seed"}
    whole = {key: int(value) for key, value in told.items() if isinstance(value, float) and value.is_integer()}
    return {key: json.dumps(value, ensure_ascii=False, default=str) for key, value in {**told, **whole}.items()}


def flat(content: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings by dotted keys: ``loss.gamma``."""
    leaves: dict[str, Any] = {}
    for key, value in content.items():
        leaves |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return leaves


def _labels(runs: Sequence[FinishedRun]) -> list[str]:
    options = [(run.config["loss"]["name"], run.config["model"]["name"], _method(run)) for run in runs]
    labels: list[str] = []
    for loss, model, own in options:
        prefix = f"{model} " if any(name == loss and other != model for name, other, _ in options) else ""
        rivals = [theirs for name, other, theirs in options if (name, other) == (loss, model)]
        keys = dict.fromkeys(key for theirs in rivals for key in theirs)
        differing = [key for key in keys if any(theirs.get(key) != own.get(key) for theirs in rivals)]
        told = [key for key in differing if key in own or key != "members"]  # a plain run is no ensemble of none
        label = " ".join([f"{prefix}{loss}", *(f"{key}={_word(own.get(key))}" for key in told)])
        labels.append(label if label not in labels else f"{label} #{len(labels) + 1}")  # such as k=1 and k='1'
    return labels


def _word(value: str | None) -> str:
    words = {None: "none", "true": "yes", "false": "no"}
    return words[value] if value in words else str(value).strip('"').replace(", ", ",")


def _check_policies(runs: Sequence[FinishedRun]) -> None:
    for run in runs:
        for key in POLICIES:
            first, own = runs[0].policies[key], run.policies[key]
            if first != own:
                found = f"was evaluated with {key} {shown(own)}, and {runs[0].path} with {shown(first)}"
                raise DataError(found, "compare runs that were evaluated alike", file=str(run.path))


def _check_data(methods: Sequence[Method]) -> None:
    """Every method needs runs on the same data sets, and on each of them one run per seed."""
    for method in methods:
        seen: dict[tuple[str, int], FinishedRun] = {}
        for run in method.runs:
            other = seen.setdefault((run.lists_sha256, run.seed), run)
            if other is not run:
                alike = f"are both {method.label} with seed {run.seed} on the same data"
                raise DataError(f"{other.path} and {run.path} {alike}", "leave one out")
    for method in methods:
        own = {run.lists_sha256 for run in method.runs}
        for run in (run for other in methods for run in other.runs if run.lists_sha256 not in own):
            data = f"{shown(run.config.get('data'))}, sha256 {run.lists_sha256[:12]}…"
            found = f"{method.label} has no run on the data of {run.path} ({data})"
            raise DataError(found, "compare methods on the same data")


def _check_queries(runs: Sequence[FinishedRun]) -> None:
    """Runs on the same data, evaluated alike, have values for the same queries; anything else is damage."""
    first: dict[str, FinishedRun] = {}
    for run in runs:
        other = first.setdefault(run.lists_sha256, run)
        for metric in run.per_query.keys() & other.per_query.keys():
            if not torch.equal(run.per_query[metric].isnan(), other.per_query[metric].isnan()):
                found = f"{run.path} and {other.path} have values of {metric} for different queries"
                raise DataError(found, "evaluate both again")
