"""What users turned to, in order, and what is relevant at each place of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.core.checks import check_int, fail
from songrank.core.columns import check_same_length
from songrank.core.gains import weighted_labels
from songrank.core.relevance import Relevance


@dataclass(frozen=True, eq=False)
class Histories:
    """What users turned to: user u has the entries ``offsets[u]`` to ``offsets[u + 1]``, oldest first.

    >>> some = Histories(torch.tensor([0, 3, 4]), torch.tensor([5, 6, 7, 5]), torch.ones(4))
    >>> some.windows(torch.tensor([0, 1]), length=2)
    (tensor([0, 3]), tensor([[ 5,  6],
            [-1, -1]]))
    """

    offsets: Tensor
    item: Tensor
    label: Tensor

    def __post_init__(self) -> None:
        check_same_length("label", self.label, "item", self.item)
        if self.offsets.dim() != 1 or self.offsets.shape[0] < 1:
            fail("offsets", list(self.offsets.shape), "one entry more than there are users")

    def windows(self, user: Tensor, length: int, end: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Where each user's last ``length`` + 1 entries begin, and [U, T] all but the last of them, −1 after the end.

        What a model reads to tell the entries of such a window, one after the other. A window may ``end`` [U] before
        the history does.
        """
        begin = self.offsets[user]
        end = self.offsets[user + 1] if end is None else end
        begin = torch.maximum(begin, end - 1 - length)
        return begin, self.before(begin, (end - 1 - begin).clamp_min(0))

    def last(self, user: Tensor, length: int, width: int | None = None) -> Tensor:
        """[U, T]: each user's last ``length`` entries, −1 after the end; T is ``width``, or as small as it can be.

        A width that is given spares a look at the device.

        >>> Histories(torch.tensor([0, 3]), torch.tensor([5, 6, 7]), torch.ones(3)).last(torch.tensor([0]), 2)
        tensor([[6, 7]])
        """
        begin, end = self.offsets[user], self.offsets[user + 1]
        begin = torch.maximum(begin, end - length)
        return self.before(begin, end - begin, width)

    def before(self, begin: Tensor, count: Tensor, width: int | None = None) -> Tensor:
        """[U, T]: so many items from ``begin`` on."""
        if width is None:
            width = int(count.max()) if count.numel() else 0
        place = torch.arange(width, device=begin.device)
        there = place < count.unsqueeze(1)
        at = torch.where(there, begin.unsqueeze(1) + place, 0)
        return torch.where(there, self.item[at].long(), -1)


def next_items(histories: Histories, num_items: int, following: int = 1, gain: str = "exp2") -> Relevance:
    """What is relevant at each entry of histories: its item, and so on for ``following`` entries of the same user.

    The gain of the j-th of them, counted from 1, is 1 / j of what its label says; of an item that comes twice the
    larger one counts. Queries are entries; a row of a loss's memory is a pair of an entry and an item.

    >>> some = Histories(torch.tensor([0, 3, 4]), torch.tensor([5, 6, 7, 5]), torch.ones(4))
    >>> found = next_items(some, num_items=9, following=2, gain="linear")
    >>> found.num_relevant.tolist(), found.item.tolist(), found.label.tolist()
    ([2, 2, 1, 1], [5, 6, 6, 7, 7, 5], [1.0, 0.5, 1.0, 0.5, 1.0, 1.0])
    """
    count = histories.item.shape[0]
    entry = torch.arange(count, device=histories.item.device)
    end = histories.offsets[1:].repeat_interleave(histories.offsets.diff())
    keys, labels = [], []
    for place in range(check_int("following", following)):
        kept = entry + place < end
        at = (entry + place)[kept]
        keys.append(entry[kept] * num_items + histories.item[at])
        labels.append(weighted_labels(histories.label[at].float(), 1.0 / (place + 1), gain))
    key, label = torch.cat(keys), torch.cat(labels)
    if following > 1:  # the larger one of two labels of a pair
        order = label.argsort(descending=True, stable=True)
        order = order[key[order].argsort(stable=True)]
        first = torch.ones_like(order, dtype=torch.bool)
        first[1:] = key[order][1:] != key[order][:-1]
        key, label = key[order][first], label[order][first]
    return Relevance.from_keys(key, label, count, num_items)
