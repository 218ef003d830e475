"""What users turned to, in order: of known users from a data set, of anybody from a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from songrank.core.csr import offsets, segment_rows
from songrank.core.ids import Ids
from songrank.data import CatalogueSplit, Dataset

if TYPE_CHECKING:
    from songrank.data.preparation.interaction_log import Interactions

KEPT = ("last", "first", "max", "keep", "error")
"""Which of a user's rows with one item preparation keeps: its option ``duplicates``."""


@dataclass(frozen=True, eq=False)
class ItemLists:
    """Items of users: row r has ``item[offsets[r]]`` to ``item[offsets[r + 1] - 1]``.

    >>> lists = ItemLists(torch.tensor([0, 3, 3, 4]), torch.tensor([5, 6, 7, 2], dtype=torch.int32))
    >>> lists.last(torch.tensor([2, 0, 1]), 2).tolist()
    [[2, -1], [6, 7], [-1, -1]]
    >>> [column.tolist() for column in lists.entries(torch.tensor([2, 0]))]
    [[0, 1, 1, 1], [2, 5, 6, 7]]
    """

    offsets: Tensor
    item: Tensor

    def __len__(self) -> int:
        return self.offsets.shape[0] - 1

    def last(self, row: Tensor, length: int) -> Tensor:
        """[R, T]: the last items of these rows, at most ``length``, −1 after the end; T is at least 1."""
        begin, end = self.offsets[row], self.offsets[row + 1]
        count = (end - begin).clamp(max=length)
        place = torch.arange(max(1, int(count.max())) if count.numel() else 1)
        there = place < count.unsqueeze(1)
        found = torch.full(there.shape, -1)
        found[there] = self.item[((end - count).unsqueeze(1) + place)[there]].long()
        return found

    def entries(self, row: Tensor) -> tuple[Tensor, Tensor]:
        """All items of these rows, and for each which of the rows it belongs to, from 0."""
        count = self.offsets[row + 1] - self.offsets[row]
        owner = segment_rows(count)
        at = torch.arange(owner.shape[0]) + (self.offsets[row] - offsets(count)[:-1])[owner]
        return owner, self.item[at].long()

    def shortened(self, length: int) -> "ItemLists":
        """The last ``length`` items of each row."""
        count = self.offsets.diff()
        place = torch.arange(self.item.shape[0]) - torch.repeat_interleave(self.offsets[:-1], count)
        kept = place >= torch.repeat_interleave(count - length, count)
        return ItemLists(offsets(count.clamp(max=length)), self.item[kept])


def dataset_histories(dataset: Dataset, splits: Sequence[str]) -> tuple[ItemLists, Tensor]:
    """What each user turned to in these splits, in order, and the label of each entry.

    In the order of preparation: of time, and where times are equal or there are none, of the source.
    """
    parts = [part for name in splits if isinstance(part := dataset[name], CatalogueSplit)]
    owner = torch.cat([segment_rows(part.offsets.diff()) for part in parts])
    item, label = torch.cat([part.item for part in parts]), torch.cat([part.label for part in parts])
    order = torch.arange(owner.shape[0])
    for found in ([part.place for part in parts], [part.time for part in parts]):
        known = [column for column in found if column is not None]
        if len(known) == len(parts) > 1:
            order = torch.cat(known).argsort(stable=True)
            break
    order = order[owner[order].argsort(stable=True)]
    counts = torch.stack([part.offsets.diff() for part in parts]).sum(0)
    return ItemLists(offsets(counts), item[order]), label[order]


def table_histories(
    log: "Interactions", items: Ids, kept: str = "keep", min_rating: float | None = None
) -> tuple[ItemLists, ItemLists]:
    """What each user of a table turned to, in order of time, or of its rows where it has no times; and all he met.

    Items that the model does not know are left out, and of the former, where there are labels, rows that are not
    relevant by them.

    Args:
        log: rows of the table; users have the numbers of its ids.
        items: ids that the model knows.
        kept: which of a user's rows with one item count, one of ``KEPT``; where labels would decide, the last.
        min_rating: the least label that is relevant; None for all above 0.

    """
    number = items.find(list(log.item_ids)).numpy()[log.item]
    user, place = log.query.astype(np.int64), np.arange(number.shape[0])
    order = np.lexsort((place, user) if log.time is None else (place, log.time, user))
    order = met = order[number[order] >= 0]
    if log.label is not None:
        order = order[((log.label > 0) & (log.label >= (min_rating or 0.0)))[order]]
    if kept != "keep":
        pair = (user * len(items) + number)[order]
        pair = pair if kept == "first" else pair[::-1]
        first = np.unique(pair, return_index=True)[1]
        order = order[np.sort(first if kept == "first" else pair.shape[0] - 1 - first)]

    def lists(rows: np.ndarray[Any, Any]) -> ItemLists:
        counts = np.bincount(user[rows], minlength=len(log.query_ids))
        return ItemLists(offsets(torch.from_numpy(counts)), torch.from_numpy(number[rows]))

    return lists(order), lists(met)
