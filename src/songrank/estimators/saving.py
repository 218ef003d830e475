"""Saving and loading of estimators: model folder, parameters and other files, written atomically, without pickle."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

from songrank import __version__
from songrank.core.errors import DataError, UserError, shown
from songrank.io.files import check_sha256, write_whole
from songrank.io.json_files import plain, read_json, write_json
from songrank.io.staging import staged_directory
from songrank.metrics import Evaluation
from songrank.metrics.evaluation import reduce_queries
from songrank.models.model_folder import ModelFolder, open_with, save_model

FORMAT, VERSION = "songrank-estimator", 2
NOT_SAVED = ("callbacks", "folder")  # parameters specific to a process or machine
RANKER = "ranker.json"  # fitted attributes of a ranker
EVALUATIONS = "evaluations.safetensors"  # values per query of the final evaluations
_TOLD = "estimator.json"
_OWN = (
    "model.json",
    "vocabulary.txt",
    "recommender.json",
    RANKER,
    "interactions.parquet",
    "items.parquet",
    "users.parquet",
    "lightgbm.txt",
)
_POLICIES = ("num_queries", "num_empty", "ties", "empty", "gain", "candidates")
_AGAIN = "save the estimator again"


def write_estimator(target: Path, folder: ModelFolder, told: Mapping[str, Any], more: Mapping[str, bytes]) -> None:
    """Write a model, a description of the estimator, and additional files; an existing estimator is replaced."""
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in more.items()}
    content = {"format": FORMAT, "version": VERSION, "songrank": __version__, **told, "files": sums}
    try:
        content = json.loads(json.dumps(plain(content), default=plain_number))
    except TypeError as error:
        raise UserError(f"a parameter cannot be saved as JSON ({error}); expected numbers, strings and lists") from None
    with staged_directory(target, overwrite=True, marker=_TOLD, own=_OWN) as place:
        save_model(folder, place)
        for name, data in more.items():
            write_whole(place / name, data)
        write_json(place / _TOLD, content)


def read_estimator(path: Path, name: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Read and validate the description and the files of an estimator of this class."""
    told = read_json(path / _TOLD, f"expected a directory written by {name}.save")
    if told.get("format") != FORMAT or told.get("class") != name:
        found = shown(told.get("class"))
        raise DataError(f"contains {found}, not a {name}", "load it with the class it was saved with", file=str(path))
    if told.get("version") != VERSION:
        what = f"has format version {told.get('version')!r}; songrank {__version__} supports {VERSION}"
        raise DataError(what, f"{open_with(told.get('songrank'))}fit and save the estimator again", file=str(path))
    parameters, files = told.get("parameters"), told.get("files")
    sound = isinstance(parameters, dict) and set(parameters).isdisjoint(NOT_SAVED) and isinstance(files, dict)
    if not sound or any(Path(file).name != file for file in files or ()):
        raise DataError("is damaged or was edited", _AGAIN, file=str(path / _TOLD))
    for file, digest in (files or {}).items():
        check_sha256(path / file, digest, "checksum mismatch", _AGAIN)
    return told, {file: (path / file).read_bytes() for file in files or ()}


def describe_evaluations(found: Mapping[str, Evaluation]) -> list[dict[str, Any]]:
    """Name, metrics and policies of each evaluation, for JSON; see :func:`pack_evaluations`."""
    policies = ({key: getattr(one, key) for key in _POLICIES} for one in found.values())
    return [
        {"name": name, "metrics": list(one.per_query), **told}
        for (name, one), told in zip(found.items(), policies, strict=True)
    ]


def pack_evaluations(found: Mapping[str, Evaluation]) -> bytes:
    """The values per query of evaluations, as safetensors; names of evaluation sets are in the description only."""
    return save(
        {
            f"{number}.{metric}": values.cpu().contiguous()
            for number, one in enumerate(found.values())
            for metric, values in one.per_query.items()
        }
    )


def unpack_evaluations(told: Sequence[Mapping[str, Any]], values: bytes) -> dict[str, Evaluation]:
    """The inverse of :func:`describe_evaluations` and :func:`pack_evaluations`."""
    tensors, found = load(values), {}
    for number, one in enumerate(told):
        per_query = {str(metric): tensors[f"{number}.{metric}"] for metric in one["metrics"]}
        means = {metric: float(reduce_queries(values, "mean")) for metric, values in per_query.items()}
        found[str(one["name"])] = Evaluation(means, per_query, **{key: one[key] for key in _POLICIES})
    return found


def plain_number(value: Any) -> Any:
    """Convert a numpy number to a Python number, for JSON."""
    if isinstance(value, np.generic | np.ndarray | torch.Tensor) and value.ndim == 0:
        return value.item()
    raise TypeError(f"{type(value).__name__} {value!r:.40}")
