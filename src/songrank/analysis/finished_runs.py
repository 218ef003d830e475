"""Finished runs, read for comparison from ``config.yaml``, ``evaluation/SPLIT.json`` and ``.safetensors``.

Other tools can write such directories too: configurations need not be valid recipes.
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
from songrank.core.limits import RECIPE_BYTES
from songrank.core.text import counted
from songrank.data import Dataset
from songrank.io.arrays import read_arrays
from songrank.io.files import check_sha256, read_whole
from songrank.io.json_files import read_json
from songrank.io.verification import check_seal
from songrank.metrics.comparison import Fold
from songrank.models.registry import MODELS

POLICIES = ("ties", "gain", "empty_policy", "candidates")
_NOT_THE_METHOD = {"seed", "data", "prepare", "device", "title", "description", "notes", "output", "evaluation"}
_NOT_THE_METHOD |= {"threads", "workers", "deterministic"}
_ROUNDING = 1e-4  # relative to the larger of 1 and the mean, since other tools round
_DAMAGED = "leave this run out, or train it again"


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run and its evaluation on one split; ``per_query`` has float64 values, NaN where the mean skips a query."""

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
        """The random seed of the training."""
        return int(self.config["seed"])


@dataclass(frozen=True, eq=False)
class Method:
    """Runs that differ only in seed and data set; a baseline model is ``measured`` on the data set of each."""

    label: str
    runs: tuple[FinishedRun, ...]
    measured: tuple[Measured, ...] = ()

    @property
    def places(self) -> list[Path]:
        """The run directories."""
        return [] if self.measured else [run.path for run in self.runs]

    def folds(self, metric: str) -> list[Fold]:
        """Values of a metric on each data set, ordered by checksum; rows are ordered by seed."""
        folds = []
        for data in sorted({run.lists_sha256 for run in self.runs}):
            runs = sorted((run for run in self.runs if run.lists_sha256 == data), key=lambda run: run.seed)
            folds.append(Fold(torch.stack([run.per_query[metric] for run in runs]), tuple(run.seed for run in runs)))
        return folds


def find_runs(places: Iterable[Path]) -> list[Path]:
    """Run directories; a directory without config.yaml stands for all run directories in it."""
    found: dict[Path, Path] = {}
    for place in places:
        if not os.path.isdir(place):  # unlike Path.is_dir, it does not raise PermissionError
            what = "is not a directory" if os.path.exists(place) else "does not exist"
            raise DataError(what, "expected a run directory written by `songrank train`", file=str(place))
        inside = [place]
        if not os.path.exists(place / "config.yaml"):
            inside = sorted(file.parent for file in place.glob("*/config.yaml"))
        if not inside:
            fix = "expected a run directory written by `songrank train`, or a directory of such directories"
            raise DataError("has no config.yaml", fix, file=str(place))
        for run in inside:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def how_to_finish(path: Path) -> str:
    """What to do about a run without an evaluation; one whose training failed would fail again."""
    with suppress(DataError):
        if read_json(path / "run.json").get("status") == "failed":
            return "its training failed (see run.json): train it again with other settings, or leave it out"
    return f"finish it with `songrank train --resume {path}`"


def read_run(path: Path, split: str = "test") -> FinishedRun:
    """A finished run with its evaluation on one split; a ``DataError`` if it is missing or damaged."""
    config = _read_config(path / "config.yaml")
    file = path / "evaluation" / f"{split}.json"
    if not os.path.exists(file):
        others = sorted(other.stem for other in file.parent.glob("*.json"))
        fix = f"it has {', '.join(others)}" if others else how_to_finish(path)
        raise DataError(f"has no evaluation of the {split} split", fix, file=str(path))
    try:
        info, stored = read_json(file), file.with_suffix(".safetensors")
        if "values_sha256" in info:
            check_sha256(stored, info["values_sha256"], f"checksum mismatch with {file.name}", _DAMAGED)
        values = read_arrays(stored)
    except DataError as error:
        raise DataError(error.what, _DAMAGED, file=error.file) from None
    metrics = _expect(file, info, "metrics", dict)
    queries = _expect(file, info, "queries", int)
    for metric in metrics:
        _check_values(stored, metric, values.get(metric), queries)
        _check_mean(stored, metric, metrics[metric], values[metric])
    per_query = {metric: values[metric].double() for metric in metrics}
    empty = _expect(file, info, "empty", int)
    policies = {key: _expect(file, info, key, (str, int)) for key in POLICIES}
    lists_sha256 = _expect(file, info, "lists_sha256", str)
    return FinishedRun(path, config, metrics, per_query, queries, empty, policies, lists_sha256)


def check_lists(run: FinishedRun, dataset: Dataset, split: str) -> None:
    """Raise if a data set does not contain the lists on which a run was evaluated."""
    from songrank.training.run_directory import lists_fingerprint  # a slow import that reading runs does not need

    if split not in dataset or lists_fingerprint(dataset, split) != run.lists_sha256:
        fix = "pass the data set of the evaluation with --data"
        raise DataError(f"does not contain the lists on which {run.path} was evaluated", fix, file=str(dataset.path))


def group_runs(runs: Sequence[FinishedRun]) -> list[Method]:
    """Group runs by method, in the order in which the methods first appear.

    The label of a method is the name of its loss. If that is ambiguous, the name of the model precedes it, and other
    settings that differ follow. Raises a ``DataError`` for runs that cannot be compared.
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

    from songrank.io.yaml_text import BoundedLoader

    try:
        text = read_whole(file, RECIPE_BYTES).decode("utf-8")
        check_seal(text, str(file))
        config = yaml.load(text, BoundedLoader)
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})", "check path and permissions", file=str(file)) from None
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise DataError(f"is not YAML ({error.problem})", _DAMAGED, file=str(file), line=line) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"is not YAML ({first_line(error)})", _DAMAGED, file=str(file)) from None
    if not isinstance(config, dict):
        raise DataError("is not a mapping", "expected keys such as model, loss, data and seed", file=str(file))
    for key in ("model", "loss"):
        _expect(file, _expect(file, config, key, dict), "name", str, f"{key}.name")
    _expect(file, config, "seed", int)
    return config


def _expect(file: Path, content: Mapping[str, Any], key: str, kind: Any, title: str | None = None) -> Any:
    """The value of a required key of this type."""
    value = content.get(key)
    if isinstance(value, kind) and not isinstance(value, bool):
        return value
    names = {dict: "a mapping", int: "an integer", str: "a string"}
    found = f"{title or key} is {shown(value)}" if key in content else f"has no {title or key}"
    raise DataError(found, f"expected {names.get(kind, 'a string or an integer')}", file=str(file))


def _check_values(file: Path, metric: str, values: Tensor | None, queries: int) -> None:
    if values is None:
        raise DataError(f"has no values of {metric}", _DAMAGED, file=str(file))
    if values.shape != (queries,):
        found = f"{metric} has shape {list(values.shape)}, but the evaluation has {counted(queries, 'queries')}"
        raise DataError(found, _DAMAGED, file=str(file))
    if values.isinf().any():
        raise DataError(f"{metric} has infinite values", _DAMAGED, file=str(file))


def _check_mean(file: Path, metric: str, told: Any, values: Tensor) -> None:
    """Raise unless the mean of the values is the one of the JSON file."""
    mean = values.double().nanmean().item()
    if isinstance(told, int | float) and not abs(mean - told) <= _ROUNDING * max(1.0, abs(told)):
        what = f"{metric} has mean {mean:.6g}, but the evaluation has {told:.6g}"
        raise DataError(what, _DAMAGED, file=str(file))


def _method(run: FinishedRun) -> dict[str, str]:
    """The configuration by dotted keys, values as JSON, without keys that do not define the method."""
    from songrank.training.config.recipe import Recipe

    config = run.config
    with suppress(UserError):  # written by another tool; of earlier songrank versions, defaults are filled in
        recipe = Recipe.read(config)
        config = recipe.model_dump(mode="json")
        if recipe.auto is not None:  # what it chose is the result, not the method
            config = {"auto": config["auto"], "model": {"name": "auto"}, "loss": {"name": "auto"}}
        elif recipe.blend is not None:  # weights chosen on validation are part of the result, not of the method
            parts = recipe.blend.members
            own = [{**part.changes, **({} if recipe.blend.metric else {"weight": part.weight})} for part in parts]
            config["blend"] = {"metric": recipe.blend.metric, **{str(number): part for number, part in enumerate(own)}}
    kept = {key: value for key, value in config.items() if key not in _NOT_THE_METHOD}
    told = {key: value for key, value in flat(kept).items() if value is not None and key.rpartition(".")[2] != "seed"}
    whole = {key: int(value) for key, value in told.items() if isinstance(value, float) and value.is_integer()}
    return {key: json.dumps(value, ensure_ascii=False, default=str) for key, value in {**told, **whole}.items()}


def flat(content: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings flattened to dotted keys such as ``loss.gamma``."""
    leaves: dict[str, Any] = {}
    for key, value in content.items():
        leaves |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return leaves


def method_name(config: Mapping[str, Any]) -> tuple[str, str]:
    """The loss and the model of a configuration; a model in closed form has its own name for the loss.

    Of a blend, both are the names of what it combines.

    >>> config = {"model": {"name": "history"}, "loss": {"name": "song"}}
    >>> method_name(config)
    ('song', 'history')
    >>> method_name({**config, "blend": {"members": [{"changes": {}}, {"changes": {"model.name": "neumf"}}]}})[0]
    'blend of history and neumf'
    """
    if isinstance(config.get("auto"), dict):
        return "auto", "auto"
    model = str(config["model"]["name"])
    kind = MODELS.get(model)
    loss = model if kind is not None and kind.capabilities.closed_form else str(config["loss"]["name"])
    section = config.get("blend")
    if not isinstance(section, dict):
        return loss, model
    changes = [part.get("changes", {}) for part in section.get("members", [])]
    models, losses = (
        list(dict.fromkeys(str(change.get(f"{key}.name", name)) for change in changes))
        for key, name in (("model", model), ("loss", loss))
    )
    *others, last = losses if len(models) == 1 < len(losses) else models
    named = f"blend of {', '.join(others)} and {last}" if others else f"blend of {len(changes)} {last}"
    return named, named


def _labels(runs: Sequence[FinishedRun]) -> list[str]:
    options = [(*method_name(run.config), _method(run)) for run in runs]
    labels: list[str] = []
    for loss, model, own in options:
        prefix = f"{model} " if any(name == loss and other != model for name, other, _ in options) else ""
        rivals = [theirs for name, other, theirs in options if (name, other) == (loss, model)]
        keys = dict.fromkeys(key for theirs in rivals for key in theirs)
        differing = [key for key in keys if any(theirs.get(key) != own.get(key) for theirs in rivals)]
        named = [key for key in differing if key in own or key != "members"]  # single runs have no members
        label = " ".join([f"{prefix}{loss}", *(f"{key}={_word(own.get(key))}" for key in named)])
        labels.append(label if label not in labels else f"{label} #{len(labels) + 1}")  # for example k=1 and k='1'
    return labels


def _word(value: str | None) -> str:
    words = {None: "none", "true": "yes", "false": "no"}
    return words[value] if value in words else str(value).strip('"').replace(", ", ",")


def _check_policies(runs: Sequence[FinishedRun]) -> None:
    for run in runs:
        for key in POLICIES:
            first, own = runs[0].policies[key], run.policies[key]
            if first != own:
                found = f"was evaluated with {key} {shown(own)}, but {runs[0].path} with {shown(first)}"
                raise DataError(found, "compare runs with the same evaluation policies", file=str(run.path))


def _check_data(methods: Sequence[Method]) -> None:
    """Every method needs runs on the same data sets, and one run per seed on each of them."""
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
            found = f"{method.label} has no run on the data set of {run.path} ({data})"
            raise DataError(found, "compare methods on the same data sets")


def _check_queries(runs: Sequence[FinishedRun]) -> None:
    """Runs on the same data set with the same policies must have values for the same queries."""
    first: dict[str, FinishedRun] = {}
    for run in runs:
        other = first.setdefault(run.lists_sha256, run)
        for metric in run.per_query.keys() & other.per_query.keys():
            if not torch.equal(run.per_query[metric].isnan(), other.per_query[metric].isnan()):
                found = f"{run.path} and {other.path} have values of {metric} for different queries"
                raise DataError(found, "evaluate both again")
