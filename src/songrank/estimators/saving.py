"""An estimator on disk: model folder, parameters and other files, written whole or not at all, without pickle."""

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
NOT_SAVED = ("callbacks", "folder")  # parameters that belong to one process and one machine
RANKER = "ranker.json"  # fitted attributes of a ranker
_TOLD = "estimator.json"
_OWN = ("model.json", "vocabulary.txt", "recommender.json", RANKER, "interactions.parquet")
_AGAIN = "save the estimator again"


def write_estimator(target: Path, folder: ModelFolder, told: Mapping[str, Any], more: Mapping[str, bytes]) -> None:
    """Write a model, what is told about its estimator, and more files by name; what was saved there is replaced."""
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in more.items()}
    content = {"format": FORMAT, "version": VERSION, "songrank": __version__, **told, "files": sums}
    try:
        text = json.dumps(plain(content), indent=2, ensure_ascii=False, default=plain_number) + "\n"
    except TypeError as error:
        raise UserError(f"a parameter cannot be saved as JSON ({error}); use numbers, texts and lists") from None
    with staged_directory(target, overwrite=True, marker=_TOLD, own=_OWN) as place:
        save_model(folder, place)
        for name, data in more.items():
            write_whole(place / name, data)
        write_whole(place / _TOLD, text)


def read_estimator(path: Path, name: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What is told about an estimator of this class, and its files by name, checked."""
    told = read_json(path / _TOLD, f"expected a folder that {name}.save made")
    if told.get("format") != FORMAT or told.get("class") != name:
        found = shown(told.get("class"))
        raise DataError(f"holds {found}, not a {name}", "load it with its own class", file=str(path))
    if told.get("version") != VERSION:
        what = f"has format version {told.get('version')!r}, and songrank {__version__} reads {VERSION}"
        raise DataError(what, "load it with the songrank that saved it", file=str(path))
    parameters, files = told.get("parameters"), told.get("files")
    sound = isinstance(parameters, dict) and set(parameters).isdisjoint(NOT_SAVED) and isinstance(files, dict)
    if not sound or any(Path(file).name != file for file in files or ()):
        raise DataError("was changed by hand or is damaged", _AGAIN, file=str(path / _TOLD))
    for file, digest in (files or {}).items():
        check_sha256(path / file, digest, "is damaged: its checksum is another", _AGAIN)
    return told, {file: (path / file).read_bytes() for file in files or ()}


def plain_number(value: Any) -> Any:
    """A number of numpy's as one of Python's, for JSON.

    >>> plain_number(np.int64(3))
    3
    """
    if isinstance(value, np.generic | np.ndarray | torch.Tensor) and value.ndim == 0:
        return value.item()
    raise TypeError(f"{type(value).__name__} {value!r:.40}")
