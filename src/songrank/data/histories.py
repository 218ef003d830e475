"""Interaction histories, oldest first, of a prepared data set or a new table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from songrank.core.columns import Array
from songrank.core.csr import CSR, segment_rows
from songrank.core.errors import UserError
from songrank.core.ids import Ids
from songrank.core.pairs import pack
from songrank.data.dataset import CatalogueSplit, Dataset

if TYPE_CHECKING:
    from songrank.data.preparation.interaction_log import Interactions

KEPT = ("last", "first", "max", "keep", "error")
"""Values of the preparation option ``duplicates``: which rows of the same user and item are kept."""


def dataset_histories(
    dataset: Dataset, splits: Sequence[str], *, times: bool = False, users: tuple[int, int] | None = None
) -> CSR:
    """The history of each user over these splits, by time, then position in the source: ``item`` and ``label``.

    With ``times`` also ``time``, as whole numbers. ``users`` are the first one and the last one + 1; by default all.
    """
    parts = [part.pairs for name in splits if isinstance(part := dataset[name], CatalogueSplit)]
    parts = parts if users is None else [part.slice(*users) for part in parts]
    owner = torch.cat([segment_rows(part.lengths) for part in parts])
    order = torch.arange(owner.shape[0])
    of_parts = {name: [part.columns.get(name) for part in parts] for name in ("place", "time")}
    for columns in of_parts.values():
        known = [column for column in columns if column is not None]
        if len(known) == len(parts) > 1:
            order = torch.cat(known).argsort(stable=True)
            break
    order = order[owner[order].argsort(stable=True)]
    table = {name: torch.cat([part[name] for part in parts]) for name in ("item", "label")}
    if times:
        known = [column for column in of_parts["time"] if column is not None]
        if len(known) < len(parts):
            raise UserError(f"{dataset.path} has no times; prepare it from a log with times, or use time_bias=false")
        table["time"] = torch.cat(known).long()
    counts = torch.stack([part.lengths for part in parts]).sum(0)
    return CSR.from_lengths(counts, **{name: column[order] for name, column in table.items()})


def history_rows(
    histories: CSR, begin: Tensor, count: Tensor, width: int, *, times: bool
) -> Tensor | tuple[Tensor, Tensor]:
    """The input of a model: ``count`` items [R, T] from position ``begin``, or with ``times`` a pair (items, times)."""
    items = histories.span(begin, count, width)
    return (items, histories.span(begin, count, width, "time")) if times else items


def table_histories(
    log: "Interactions", items: Ids, kept: str = "keep", min_rating: float | None = None
) -> tuple[CSR, CSR]:
    """The interaction history of each user of a table, ordered by time or else by row, and the user's seen items.

    Histories have columns ``item`` and, if the table has times, ``time``.

    Only ``items``, those of the model, are used; if rows have labels, the history has relevant rows only, of at least
    ``min_rating`` and above 0. ``kept``, one of ``KEPT``, selects among a user's rows with the same item; for values
    that depend on labels, the last is kept.
    """
    number = items.find(list(log.item_ids)).numpy()[log.item]
    user, place = log.query.astype(np.int64), np.arange(number.shape[0])
    order = np.lexsort((place, user) if log.time is None else (place, log.time, user))
    order = met = order[number[order] >= 0]
    if log.label is not None:
        order = order[((log.label > 0) & (log.label >= (min_rating or 0.0)))[order]]
    if kept != "keep":
        pair = pack(user, number, len(items))[order]
        pair = pair if kept == "first" else pair[::-1]
        first = np.unique(pair, return_index=True)[1]
        order = order[np.sort(first if kept == "first" else pair.shape[0] - 1 - first)]

    columns = {"item": number}
    if log.time is not None:
        columns["time"] = log.time.astype(np.int64)

    def lists(rows: Array) -> CSR:
        counts = np.bincount(user[rows], minlength=len(log.query_ids))
        return CSR.from_lengths(counts, **{name: column[rows] for name, column in columns.items()})

    return lists(order), lists(met)
