"""Whether the tables of a model folder fit its model: nothing that comes from a file is used before this."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.preparation.feature_transform import FeatureTransform
from songrank.serving.histories import KEPT

if TYPE_CHECKING:
    from songrank.serving.model_folder import ModelFolder


def check_tables(folder: "ModelFolder") -> None:
    """Raise ``ValueError`` if ids, seen items or the way input is read do not fit the model's sizes."""
    sizes, info = folder.info["sizes"], folder.info
    items = sizes.get("num_items", sizes.get("num_labels"))
    users = sizes.get("num_queries", None if folder.query_ids is None else len(folder.query_ids))
    sound = (folder.item_ids is None) == (folder.inputs == "documents")
    sound = sound and (folder.query_ids is None) == (folder.inputs not in ("ids", "histories"))
    sound = sound and (folder.item_ids is None or _sound_ids(folder.item_ids, items))
    sound = sound and (folder.query_ids is None or _sound_ids(folder.query_ids, users))
    if folder.seen is not None:
        count = folder.seen["count"]
        sound = sound and count.dtype == torch.int64 and count.shape == (items,)
        sound = sound and _sound_lists(folder.seen["offsets"], folder.seen["item"], users, items)
    if folder.histories is not None:
        sound = sound and _sound_lists(folder.histories.offsets, folder.histories.item, users, items)
        sound = sound and info["duplicates"] in KEPT and isinstance(info.get("min_rating") or 0.0, int | float)
    if folder.words is not None:
        told = info["vocabulary"]
        sound = sound and len(folder.words) + 2 == sizes["vocabulary"] == told["size"]
        sound = sound and isinstance(told["width"], int) and 0 < told["width"] < 2**20
        sound = sound and isinstance(told["lowercase"], bool)
    if folder.inputs in ("documents", "features"):
        sound = sound and info["features"]["count"] == sizes["num_features"]
        sound = sound and info["features"].get("scale", "none") in ("none", "l2", "log-l2")
    if folder.inputs == "documents":
        sound = sound and _sound_documents(info["features"], info.get("transform"))
    sound = sound and all(isinstance(name, str | None) for name in info.get("called", {}).values())
    if not sound:
        raise ValueError("tables")


def _sound_lists(offsets: Tensor, item: Tensor, users: int, items: int) -> bool:
    """Whether these are items of so many users."""
    sound = (offsets.dtype, item.dtype) == (torch.int64, torch.int32)
    sound = sound and offsets.shape == (users + 1,) and item.ndim == 1
    sound = sound and int(offsets[0]) == 0 and int(offsets[-1]) == item.shape[0]
    sound = sound and bool((offsets.diff() >= 0).all())
    return sound and (item.numel() == 0 or (int(item.min()) >= 0 and int(item.max()) < items))


def _sound_ids(ids: Ids, count: int) -> bool:
    """Whether so many ids can be looked up: whole numbers that ascend, or texts."""
    arrays = ids.arrays("id")
    values, offsets = arrays["id"], arrays.get("id.offsets")
    if len(ids) != count or values.ndim != 1:
        return False
    if offsets is None:
        return values.dtype == np.int64 and bool((values[1:] > values[:-1]).all())
    whole = offsets[0] == 0 and offsets[-1] == values.shape[0] and bool((offsets[1:] >= offsets[:-1]).all())
    return whole and (values.dtype, offsets.dtype) == (np.uint8, np.int64) and len(set(ids)) == count


def _sound_documents(told: Mapping[str, Any], transform: Mapping[str, Any] | None) -> bool:
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
