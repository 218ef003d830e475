"""Loading of model folders."""

from pathlib import Path

import torch

from songrank.core.errors import DataError
from songrank.data.histories import KEPT
from songrank.data.preparation.within_query import FACTORS
from songrank.models.model_folder import ModelFolder, read_model
from songrank.serving.documents import feature_transform, num_raw_features, relative_features


def open_model(path: str | Path, device: torch.device | str = "cpu", task: str | None = None) -> ModelFolder:
    """Load and validate a model folder or a finished run.

    Files contain no pickles and no paths, and memory is allocated only for existing weights.

    >>> open_model("nowhere")
    Traceback (most recent call last):
    songrank.core.errors.DataError: nowhere/model.json: is missing; expected a run directory written by `songrank train`
    """
    return read_model(path, device, task, _readable)


def _readable(folder: ModelFolder) -> bool:
    """Whether the input description of the model is supported."""
    if folder.inputs != "documents":
        return folder.histories is None or folder.info["duplicates"] in KEPT
    told = folder.info["features"]
    if told.get("within_query", "none") not in FACTORS:
        return False
    try:
        relative_features(folder)
        names, raw, transform = told.get("names"), num_raw_features(folder), feature_transform(folder)
    except DataError:
        return False
    named = names is None or (isinstance(names, list) and len(names) == raw and all(isinstance(n, str) for n in names))
    sound = named and transform.num_features == told["count"]
    return sound and told.get("first_index", 1) in (0, 1)
