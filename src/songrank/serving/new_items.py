"""New items with features for a trained model, which scores them at once."""

from dataclasses import replace
from typing import Any

import polars as pl
import torch
from torch import Tensor

from songrank.core.csr import CSR
from songrank.core.errors import DataError
from songrank.data.features.attach import union_ids
from songrank.data.features.table import EntityTable, TableEncoder
from songrank.data.readers.interactions import ITEM_NAMES
from songrank.io.source import Job
from songrank.models.described import BLEND, build_described
from songrank.models.model_folder import ModelFolder


def add_items(folder: ModelFolder, source: Any, job: Job | None = None) -> tuple[ModelFolder, int, dict[str, int]]:
    """The model with the new items of a table, the number of these, and their unknown values by column.

    The map from features to vectors that was fitted after training gives the vectors of new items. Scores of other
    items do not change, and features of known items are not read again. The result is in memory only.

    Args:
        folder: the folder of a model that was trained on data with features of items.
        source: a table of items with the columns of training: a file, or a table in memory.
        job: reports progress.
    """
    able, info = folder.model.capabilities, folder.info
    tables = [name for name in able.item_tables if name in folder.maps]
    name = str(info["model"]["name"])
    if not tables or able.graph or info.get("members", 1) != 1 or name == BLEND:
        what = f"contains {name}, to which no items can be added"
        fix = "expected a single model with a vector per item, without a graph, trained on data prepared with --items"
        raise DataError(what, fix, file=str(folder.path))
    assert folder.item_ids is not None
    assert folder.item_counts is not None
    called = str(info.get("called", {}).get("item") or "item")
    table = EntityTable(source, "item", (called, *ITEM_NAMES), job or Job())
    encoder = TableEncoder.restore(info["item_features"]["columns"], folder.encoders["item"])
    is_new = pl.Series((folder.item_ids.find(table.ids) < 0).numpy())
    if not is_new.any():
        return folder, 0, {}
    rows, unknown = encoder.encode(table.frame.filter(is_new), table.file)
    ids = union_ids(folder.item_ids, table)
    place, added = ids.find(list(folder.item_ids)), ids.find(table.ids.filter(is_new))
    weights = dict(folder.model.state_dict())
    for name in tables:
        old = weights[name]
        new = old.new_empty(len(ids), *old.shape[1:])
        new[place.to(old.device)] = old
        new[added.to(old.device)] = folder.maps[name].values(rows).to(old).view(-1, *old.shape[1:])
        weights[name] = new
    info = {**info, "sizes": {**info["sizes"], "num_items": len(ids)}}
    model = build_described(info, most=len(weights)).to(folder.device)
    model.load_state_dict(weights)
    counts = torch.zeros(len(ids), dtype=torch.int64)
    counts[place] = folder.item_counts
    lists = {word: _renumbered(some, place) for word in ("seen", "histories") if (some := getattr(folder, word))}
    found = replace(folder, info=info, model=model.eval(), item_ids=ids, item_counts=counts, **lists)
    return found, len(rows), unknown


def _renumbered(lists: CSR, place: Tensor) -> CSR:
    return CSR(lists.offsets, {**lists.columns, "item": place[lists["item"].long()].to(torch.int32)})
