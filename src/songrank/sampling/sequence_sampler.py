"""From histories to slates: every item that a user turned to is what came next after those before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from songrank._checks import check_int, fail
from songrank._columns import check_same_length
from songrank._csr import offsets as running_total
from songrank._csr import segment_rows
from songrank.functional.gains import gains
from songrank.functional.hashing import derive_key, random_fractions
from songrank.relevance import Relevance
from songrank.sampling.slate_sampler import SlateSampler
from songrank.slate import Slate

_SHARED = 3  # SlateSampler's own keys are 0 to 2


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

    def windows(self, user: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Where each user's last ``length`` + 1 entries begin, and [U, T] all but the last of them, −1 after the end.

        What a model reads to tell the entries of such a window, one after the other.
        """
        begin, end = self.offsets[user], self.offsets[user + 1]
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


class SequenceSampler(SlateSampler):
    """Yields slates of what comes next, every user with a history once an epoch.

    A row is one entry of a user's history, and its relevant item is the item of that entry; what was there before it is
    what the model reads. ``slate.query`` and ``slate.pair`` are the entry's number: a loss remembers one row an entry.
    The list is the whole catalogue. The last ``length`` entries of a history are rows; the first entry of a short one
    comes after nothing.

    Args:
        relevance: of the same users and items; its device is where slates are made.
        histories: the entries, in the order of ``relevance``'s users.
        length: most items that are read.
        queries_per_batch: users a batch.
        irrelevant: ``"all"``: each row has the whole catalogue, which all rows share. A number: so many items, drawn
            uniformly with replacement for the batch and shared by its rows, and the relevant item before them. A row
            has no use for its own relevant item among the shared ones, and of what is left every irrelevant item is as
            likely as any other: the mean over them is unbiased.
        seed, k, gain, query_weight: as for :class:`SlateSampler`; weights are those of users.

    >>> histories = Histories(torch.tensor([0, 3, 4]), torch.tensor([5, 6, 7, 5]), torch.ones(4))
    >>> relevance = Relevance.from_pairs([0, 0, 0, 1], [5, 6, 7, 5], num_items=9)
    >>> slate = SequenceSampler(relevance, histories, length=4, queries_per_batch=2).draw([0, 1])
    >>> slate.query.tolist(), slate.column.squeeze(1).tolist(), slate.item.shape
    ([0, 1, 2, 3], [5, 6, 7, 5], torch.Size([1, 9]))

    """

    def __init__(
        self,
        relevance: Relevance,
        histories: Histories,
        length: int,
        queries_per_batch: int = 128,
        irrelevant: int | str = "all",
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(relevance, queries_per_batch, "all", irrelevant, seed, **options)
        if not relevance.is_catalogue or histories.offsets.shape[0] != relevance.num_relevant.shape[0] + 1:
            fail("histories", f"of {histories.offsets.shape[0] - 1} users", f"those of the users of {relevance}")
        if self.partial != "short" or self.length is not None:
            fail("options", sorted(options), "neither partial nor length: users have any number of rows")
        self.histories, self.window = histories, check_int("length", length)

    @property
    def columns(self) -> int:
        """L of the slates."""
        return self.relevance.num_items if self.irrelevant == "all" else 1 + int(self.irrelevant)

    def _batches_at_once(self) -> int:
        return 1

    def draw(self, query: Tensor | Sequence[int], epoch: int | None = None) -> Slate:
        """The slate of these users in this epoch (the current one if not given)."""
        epoch = self.epoch if epoch is None else epoch
        user = torch.as_tensor(query, device=self.relevance.device) - self.relevance.query_range[0]
        entry, owner = self._entries(user)
        item, label = self.histories.item[entry].long(), self.histories.label[entry]
        rows = entry.shape[0]
        pair = entry.unsqueeze(1)
        if self.irrelevant == "all":
            parts = {"item": torch.arange(self.columns, device=item.device).unsqueeze(0), "column": item.unsqueeze(1)}
            parts["mask"] = torch.ones_like(parts["item"], dtype=torch.bool)
            labels = torch.zeros(rows, self.columns, dtype=label.dtype, device=item.device)
        else:
            shared = self._shared(user, epoch)
            parts = {"item": torch.cat([item.unsqueeze(1), shared.expand(rows, -1)], dim=1)}
            parts["mask"] = torch.cat([torch.ones_like(pair, dtype=torch.bool), shared != item.unsqueeze(1)], dim=1)
            parts["column"] = torch.zeros_like(pair)
            labels = torch.zeros(rows, self.columns, dtype=label.dtype, device=item.device)
        return Slate(
            query=entry,
            label=labels.scatter_(1, parts["column"], label.unsqueeze(1)),
            pair=pair,
            list_size=torch.full_like(entry, self.relevance.num_items),
            num_relevant=torch.ones_like(entry),
            ideal_dcg=gains(label.float(), self.gain),
            k=self.k,
            gain=self.gain,
            row_weight=None if self.query_weight is None else self.query_weight[user][owner],
            complete=True,
            **parts,
        )

    def _entries(self, user: Tensor) -> tuple[Tensor, Tensor]:
        """The entries that are rows, and whose they are: the place of each owner among ``user``."""
        begin, end = self.histories.offsets[user], self.histories.offsets[user + 1]
        first = torch.maximum(begin, end - self.window)
        count = end - first
        owner = segment_rows(count)
        entry = torch.arange(owner.shape[0], device=user.device) + (first - running_total(count)[:-1])[owner]
        relevant = self.histories.label[entry] > 0
        return entry[relevant], owner[relevant]

    def _shared(self, user: Tensor, epoch: int) -> Tensor:
        """[M]: the items that all rows of a batch share; which, depends on the seed, the epoch and the first user."""
        key = derive_key(self.seed, epoch, _SHARED) + user[:1]
        fraction = random_fractions(key, int(self.irrelevant))[0]
        return (fraction * self.relevance.num_items).long()
