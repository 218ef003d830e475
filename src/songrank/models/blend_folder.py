"""The model folder of a blend, from those of its members."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from songrank.core.errors import DataError
from songrank.models.blend import Blend
from songrank.models.described import BLEND
from songrank.models.model_folder import IDS, READS, SEEN, WORDS, ModelFolder

_OF_HISTORIES = ("duplicates", "min_rating")  # how histories of new users are read


def blend_models(folders: Sequence[ModelFolder], weights: Sequence[float]) -> ModelFolder:
    """Combine opened folders of models of the same data set into a :class:`~songrank.models.Blend`.

    Members may be ensembles of seeds, but not blends. The folder stores the histories of the member that reads most
    items. ``ValueError`` for invalid weights.
    """
    first = folders[0]
    for folder in folders:
        if folder.info["model"]["name"] == BLEND:
            raise DataError("is a blend", "pass the runs that it combines", file=str(folder.path))
        if _data(folder) != _data(first):
            fix = "expected models of the same data set"
            raise DataError(f"task, input or ids differ from {first.path}", fix, file=str(folder.path))
    model = Blend([folder.model for folder in folders], weights)
    readers = [folder for folder in folders if folder.histories is not None]
    longest = max(readers, key=lambda folder: folder.model.history_length or 0, default=first)
    told = {key: longest.info[key] for key in (*READS, *_OF_HISTORIES) if key in longest.info}
    sizes = {name: size for folder in folders for name, size in folder.info["sizes"].items()}
    members = [_member(folder, weight) for folder, weight in zip(folders, model.weights, strict=True)]
    info = {"task": first.task, "inputs": model.capabilities.inputs, "sizes": sizes, **told}
    info["model"] = {"name": BLEND, "members": members}
    return replace(first, info=info, model=model.eval(), histories=longest.histories)


def _data(folder: ModelFolder) -> Mapping[str, Any]:
    """What members have in common: task, description of the input, and the checksums of ids and seen items."""
    files = {name: folder.info["files"].get(name) for name in (IDS, SEEN, WORDS)}
    return {"task": folder.task, "files": files, **{key: folder.info.get(key) for key in READS}}


def _member(folder: ModelFolder, weight: float) -> dict[str, Any]:
    kept = {key: folder.info[key] for key in ("model", "sizes", "members") if key in folder.info}
    return {**kept, "weight": weight}
