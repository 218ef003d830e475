"""Opening a model folder for use."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from songrank.core.errors import DataError
from songrank.data.histories import KEPT
from songrank.data.preparation.feature_transform import FeatureTransform
from songrank.models.model_folder import ModelFolder, read_model


def open_model(path: str | Path, device: torch.device | str = "cpu", task: str | None = None) -> ModelFolder:
    """Open a model folder, or a finished run that holds one; everything is checked before any part of it is used.

    Nothing is unpickled, no name in a file is followed, and memory is allocated only for weights that exist.

    >>> open_model("nowhere")
    Traceback (most recent call last):
    songrank.core.errors.DataError: nowhere/model.json: is missing; expected a folder made by `songrank train`
    """
    return read_model(path, device, task, _readable)


def _readable(folder: ModelFolder) -> bool:
    """Whether new input can be read as that of training was."""
    if folder.inputs == "documents":
        return _readable_documents(folder.info["features"], folder.info.get("transform"))
    return folder.histories is None or folder.info["duplicates"] in KEPT


def _readable_documents(told: Mapping[str, Any], transform: Mapping[str, Any] | None) -> bool:
    """Whether new documents can be read as those of training were; synthetic ones have no transformation."""
    how, names = told.get("within_query", "none"), told.get("names")
    given, sound = told["count"], True
    try:
        if transform is not None:
            read = FeatureTransform.from_json(transform)
            given, sound = read.num_given, read.num_features == told["count"]
    except DataError:
        return False
    raw = given // (2 if how == "z-rank" else 1)
    sound = sound and how in ("none", "z", "rank", "z-rank")
    named = names is None or (isinstance(names, list) and len(names) == raw and all(isinstance(n, str) for n in names))
    return sound and named and told.get("first_index", 1) in (0, 1)
