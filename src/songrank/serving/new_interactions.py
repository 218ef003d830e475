"""New interactions of known users for a trained model, without training."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from songrank.core.csr import CSR
from songrank.core.errors import UserError
from songrank.core.pairs import key_table, pack, table_keys
from songrank.data.histories import table_histories
from songrank.models.model_folder import ModelFolder
from songrank.serving.recommendations import known_ids

if TYPE_CHECKING:
    from songrank.data.preparation.interaction_log import Interactions


@dataclass(frozen=True)
class Added:
    """The numbers of added rows, and of rows that only training can use: those of new users, and of new items."""

    rows: int
    new_users: int
    new_items: int


def add_interactions(folder: ModelFolder, log: "Interactions") -> tuple[ModelFolder, Added]:
    """Add interactions to the seen items of their users, and to their histories if the model reads them.

    Rows of new users or items are left out. The weights do not change, so a model that reads ids only excludes the
    items and scores as before. Rows of a user follow those that the folder has.
    """
    query_ids, item_ids = known_ids(folder)
    assert folder.seen is not None
    items, users = len(item_ids), query_ids.find(list(log.query_ids))
    kept = str(folder.info.get("duplicates", "keep"))
    read, met = table_histories(log, item_ids, kept, folder.info.get("min_rating"))
    owner = users[met.row_of_entries()]
    keys = pack(owner, met["item"].long(), items)[owner >= 0]
    both = torch.cat([table_keys(folder.seen, items), keys]).unique()  # type: ignore[no-untyped-call]
    offsets, item = key_table(both, len(query_ids), items)
    told: dict[str, Any] = {"seen": CSR(offsets, {"item": item})}
    if folder.histories is not None:
        told["histories"] = _appended(folder.histories, read, users, items, kept, folder.model.history_length)
    is_new_user = (users < 0).numpy()[log.query]
    is_new_item = (item_ids.find(list(log.item_ids)) < 0).numpy()[log.item]
    added = Added(int(keys.shape[0]), int(is_new_user.sum()), int((is_new_item & ~is_new_user).sum()))
    return replace(folder, **told), added


def _appended(histories: CSR, new: CSR, users: Tensor, items: int, kept: str, length: int | None) -> CSR:
    """The entries of known users after those of their histories; of repeated items the last or the first stays."""
    if "time" in histories.columns and "time" not in new.columns:
        raise UserError("the table has no times, but the model reads them; add the time column of training")
    owner = users[new.row_of_entries()]
    both = torch.cat([histories.row_of_entries(), owner[owner >= 0]])
    columns = {name: torch.cat([old, new[name][owner >= 0].to(old.dtype)]) for name, old in histories.columns.items()}
    order = both.argsort(stable=True)
    if kept != "keep":
        pair = pack(both, columns["item"].long(), items)[order].numpy()
        pair = pair if kept == "first" else pair[::-1]
        first = np.unique(pair, return_index=True)[1]
        order = order[torch.from_numpy(np.sort(first if kept == "first" else pair.shape[0] - 1 - first))]
    counts = torch.bincount(both[order], minlength=len(histories))
    found = CSR.from_lengths(counts, **{name: column[order] for name, column in columns.items()})
    return found if length is None else found.tail(length)
