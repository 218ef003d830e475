"""Validation of the tables of a model folder, before they are used."""

from typing import TYPE_CHECKING

import torch

from songrank.core.csr import CSR

if TYPE_CHECKING:
    from songrank.models.model_folder import ModelFolder


def tables_fit(folder: "ModelFolder") -> bool:
    """Whether ids, seen items, histories and vocabulary match the sizes of the model."""
    sizes, info, item_ids, query_ids = folder.info["sizes"], folder.info, folder.item_ids, folder.query_ids
    items = sizes.get("num_items", sizes.get("num_labels"))
    users = sizes.get("num_queries", None if query_ids is None else len(query_ids))
    sound = (item_ids is None) == (folder.inputs == "documents")
    sound = sound and (query_ids is None) == (folder.inputs not in ("ids", "histories"))
    sound = sound and (item_ids is None or len(item_ids) == items)
    sound = sound and (query_ids is None or len(query_ids) == users)
    sound = sound and all(_fits(lists, users, items) for lists in (folder.seen, folder.histories) if lists is not None)
    if folder.seen is not None:
        count = folder.item_counts
        sound = sound and count is not None and count.dtype == torch.int64 and count.shape == (items,)
    if folder.histories is not None:
        sound = sound and isinstance(info.get("min_rating") or 0.0, int | float)
    if folder.words is not None:
        told = info["vocabulary"]
        sound = sound and len(folder.words) + 2 == sizes["vocabulary"] == told["size"]
        sound = sound and isinstance(told["width"], int) and 0 < told["width"] < 2**20
        sound = sound and isinstance(told["lowercase"], bool)
    if folder.inputs in ("documents", "features"):
        sound = sound and info["features"]["count"] == sizes["num_features"]
        sound = sound and info["features"].get("scale", "none") in ("none", "l2", "log-l2")
    return sound and all(isinstance(name, str | None) for name in info.get("called", {}).values())


def _fits(lists: CSR, users: int, items: int) -> bool:
    """Whether each user has one list of valid items."""
    offsets, item = lists.offsets, lists["item"]
    sound = (offsets.dtype, item.dtype) == (torch.int64, torch.int32)
    sound = sound and offsets.shape == (users + 1,) and item.ndim == 1
    sound = sound and int(offsets[0]) == 0 and int(offsets[-1]) == item.shape[0]
    sound = sound and bool((offsets.diff() >= 0).all())
    return sound and (item.numel() == 0 or (int(item.min()) >= 0 and int(item.max()) < items))
