"""Saving and loading of estimators: model folder, parameters and other files, written atomically, without pickle."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from songrank import __version__
from songrank.core.errors import DataError, UserError, shown
from songrank.io.files import check_sha256, write_whole
from songrank.io.json_files import plain, read_json
from songrank.io.staging import staged_directory
from songrank.models.model_folder import ModelFolder, save_model

FORMAT, VERSION = "songrank-estimator", 1
NOT_SAVED = ("callbacks", "folder")  # parameters specific to a process or machine
RANKER = "ranker.json"  # fitted attributes of a ranker
_TOLD = "estimator.json"
_OWN = ("model.json", "vocabulary.txt", "recommender.json", RANKER, "interactions.parquet")
_AGAIN = "save the estimator again"


def write_estimator(target: Path, folder: ModelFolder, told: Mapping[str, Any], more: Mapping[str, bytes]) -> None:
    """Write a model, a description of the estimator, and additional files; an existing estimator is replaced."""
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in more.items()}
    content = {"format": FORMAT, "version": VERSION, "songrank": __version__, **told, "files": sums}
    try:
        text = json.dumps(plain(content), indent=2, ensure_ascii=False, default=plain_number) + "\n"
    except TypeError as error:
        raise UserError(f"a parameter cannot be saved as JSON ({error}); expected numbers, strings and lists") from None
    with staged_directory(target, overwrite=True, marker=_TOLD, own=_OWN) as place:
        save_model(folder, place)
        for name, data in more.items():
            write_whole(place / name, data)
        write_whole(place / _TOLD, text)


def read_estimator(path: Path, name: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Read and validate the description and the files of an estimator of this class."""
    told = read_json(path / _TOLD, f"expected a directory written by {name}.save")
    if told.get("format") != FORMAT or told.get("class") != name:
        found = shown(told.get("class"))
        raise DataError(f"contains {found}, not a {name}", "load it with the class it was saved with", file=str(path))
    if told.get("version") != VERSION:
        what = f"has format version {told.get('version')!r}; songrank {__version__} supports {VERSION}"
        raise DataError(what, "load it with the songrank version that saved it", file=str(path))
    parameters, files = told.get("parameters"), told.get("files")
    sound = isinstance(parameters, dict) and set(parameters).isdisjoint(NOT_SAVED) and isinstance(files, dict)
    if not sound or any(Path(file).name != file for file in files or ()):
        raise DataError("is damaged or was edited", _AGAIN, file=str(path / _TOLD))
    for file, digest in (files or {}).items():
        check_sha256(path / file, digest, "checksum mismatch", _AGAIN)
    return told, {file: (path / file).read_bytes() for file in files or ()}


def plain_number(value: Any) -> Any:
    """Convert a numpy number to a Python number, for JSON."""
    if isinstance(value, np.generic | np.ndarray | torch.Tensor) and value.ndim == 0:
        return value.item()
    raise TypeError(f"{type(value).__name__} {value!r:.40}")
