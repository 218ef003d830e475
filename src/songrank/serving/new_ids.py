"""New items and users with features for a trained model, which scores them at once."""

from dataclasses import replace
from typing import Any

import polars as pl
import torch
from torch import Tensor

from songrank.core.csr import CSR, offsets
from songrank.core.errors import DataError
from songrank.core.ids import Ids
from songrank.data.features.attach import union_ids
from songrank.data.features.table import EntityTable, TableEncoder
from songrank.data.readers.interactions import ITEM_NAMES, USER_NAMES
from songrank.io.source import Job
from songrank.models.described import BLEND, build_described
from songrank.models.model_folder import ModelFolder
from songrank.serving.recommendations import known_ids

_USUAL = {"item": ITEM_NAMES, "user": USER_NAMES}


def add_ids(
    folder: ModelFolder, word: str, source: Any, job: Job | None = None
) -> tuple[ModelFolder, int, dict[str, int]]:
    """The model with the new items or users of a table, the number of these, and their unknown values by column.

    The map from features to vectors that was fitted after training gives the vectors of new ids. Scores of other ids do
    not change, and features of known ids are not read again. The result is in memory only.

    Args:
        folder: the folder of a model that was trained on data with features of this kind of ids.
        word: ``"item"`` or ``"user"``.
        source: a table with the columns of training: a file, or a table in memory.
        job: reports progress.
    """
    able, info = folder.model.capabilities, folder.info
    tables = [name for name in (able.item_tables if word == "item" else able.query_tables) if name in folder.maps]
    name = str(info["model"]["name"])
    if not tables or able.graph or info.get("members", 1) != 1 or name == BLEND:
        what = f"contains {name}, to which no {word}s can be added"
        fix = f"a single model with a vector per {word}, without a graph, trained on data prepared with --{word}s"
        raise DataError(what, f"expected {fix}", file=str(folder.path))
    before = known_ids(folder)[word == "item"]
    called = str(info.get("called", {}).get("item" if word == "item" else "query") or word)
    table = EntityTable(source, word, (called, *_USUAL[word]), job or Job())
    encoder = TableEncoder.restore(info[f"{word}_features"]["columns"], folder.encoders[word])
    is_new = pl.Series((before.find(table.ids) < 0).numpy())
    if not is_new.any():
        return folder, 0, {}
    rows, unknown = encoder.encode(table.frame.filter(is_new), table.file)
    ids = union_ids(before, table)
    place, added = ids.find(list(before)), ids.find(table.ids.filter(is_new))
    weights = dict(folder.model.state_dict())
    for name in tables:
        old = weights[name]
        new = old.new_empty(len(ids), *old.shape[1:])
        new[place.to(old.device)] = old
        new[added.to(old.device)] = folder.maps[name].values(rows).to(old).view(-1, *old.shape[1:])
        weights[name] = new
    size = "num_items" if word == "item" else "num_queries"
    info = {**info, "sizes": {**info["sizes"], size: len(ids)}}
    model = build_described(info, most=len(weights)).to(folder.device)
    model.load_state_dict(weights)
    found = replace(folder, info=info, model=model.eval(), **_tables(folder, word, ids, place))
    return found, len(rows), unknown


def _tables(folder: ModelFolder, word: str, ids: Ids, place: Tensor) -> dict[str, Any]:
    """The other tables of the folder, with these ids; ``place`` has the new number of each former one, ascending."""
    lists = {name: found for name in ("seen", "histories") if (found := getattr(folder, name)) is not None}
    if word == "user":
        return {"query_ids": ids, **{name: _with_empty_rows(found, place, len(ids)) for name, found in lists.items()}}
    assert folder.item_counts is not None
    counts = torch.zeros(len(ids), dtype=torch.int64)
    counts[place] = folder.item_counts
    renumbered = {
        name: CSR(found.offsets, {**found.columns, "item": place[found["item"].long()].to(torch.int32)})
        for name, found in lists.items()
    }
    return {"item_ids": ids, "item_counts": counts, **renumbered}


def _with_empty_rows(lists: CSR, place: Tensor, rows: int) -> CSR:
    lengths = torch.zeros(rows, dtype=torch.int64)
    lengths[place] = lists.lengths
    return CSR(offsets(lengths), lists.columns)
