"""From histories to slates: each item of a history is the target of the preceding items."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from songrank.core.checks import check_choice, check_int, fail
from songrank.core.csr import CSR, segment_rows
from songrank.core.csr import offsets as running_total
from songrank.core.hashing import derive_key
from songrank.core.packing import Group, Packing, pack_by_length, pack_in_bins, rounded_up
from songrank.core.relevance import Relevance
from songrank.core.slate import Slate
from songrank.sampling.item_draws import random_fractions
from songrank.sampling.next_items import next_items, target_windows
from songrank.sampling.shared_batches import SharedBatches
from songrank.sampling.slate_sampler import SlateSampler

WINDOWS = ("last", "random", "sliding", "prefix")
_SHARED, _WINDOW = 3, 4  # SlateSampler has keys 0 to 2
_BIN = 8  # bins have a multiple of this width, which kernels for attention expect


@dataclass(frozen=True, eq=False, kw_only=True)
class HistorySlate(Slate):
    """A slate whose rows are entries of histories, with the input windows of a model.

    For each of U users a model reads ``count`` items, at most ``width``, starting at entry ``begin``. Row b belongs to
    user ``row[b]``, after ``place[b]`` of the user's items.

    >>> histories = CSR.from_lengths([3, 1], item=[5, 6, 7, 5], label=[1.0, 1.0, 1.0, 1.0])
    >>> relevance = Relevance.from_pairs([0, 0, 0, 1], [5, 6, 7, 5], num_items=9)
    >>> slate = SequenceSampler(relevance, histories, length=4).draw([0, 1])
    >>> slate.row.tolist(), slate.place.tolist(), histories.span(slate.begin, slate.count, slate.width).tolist()
    ([0, 0, 0, 1], [0, 1, 2, 0], [[5, 6], [-1, -1]])
    """

    begin: Tensor  # [U] int64
    count: Tensor  # [U] int64
    width: int
    row: Tensor  # [B] int64
    place: Tensor  # [B] int64
    real: Tensor | None = None  # [B] bool, False for padding rows; None for none
    packing: Packing | None = None  # of the input: a start position and one position per item of each user

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.real is not None:
            self.__dict__["present"] = self.rows_present & self.real

    def rows(self, first: int, last: int) -> Self:
        """The slate of the entries from ``first`` to ``last`` − 1, with all users."""
        return replace(super().rows(first, last), begin=self.begin, count=self.count)


class PlanShape(NamedTuple):
    """The sizes of a batch of histories: slates of the same shape can share a captured step."""

    rows: int
    users: int
    positions: int
    common: int | None
    width: int
    groups: tuple[Group, ...]
    shared_bins: bool

    @property
    def sizes(self) -> list[int]:
        """The lengths of the parts of ``Plan.numbers``."""
        packed = [self.users, self.positions] if self.groups else []
        return [3 * self.rows, 3 * self.users, self.common or 0, *packed]


class Plan(NamedTuple):
    """What the CPU decides about a batch: its shape, its number of rows without padding, and all numbers."""

    shape: PlanShape
    rows: int
    numbers: Tensor


def window_stride(windows: str, length: int) -> int | None:
    """The number of rows per window that :func:`target_windows` visits once per epoch; None for a window per user.

    >>> [window_stride(windows, 50) for windows in WINDOWS]
    [None, None, 50, 1]
    """
    return {"sliding": length, "prefix": 1}.get(windows)


class SequenceSampler(SlateSampler):
    """Yields slates for next-item prediction, with every user with a history (or every window) once per epoch.

    A row is one entry of a user's history; the entry's item is relevant (``targets`` may add more), and the model reads
    the items before it. Both ``slate.query`` and ``slate.pair`` are the entry's number: the memory of a loss has one
    row per entry. The list is the whole catalogue. At most ``length`` entries of a history are rows.
    Other options are those of :class:`SlateSampler`; ``query_weight`` is per user.

    Args:
        relevance: relevance of the same users and items; slates are on its device.
        histories: the entries, ``item`` and ``label``, in the order of the users of ``relevance``.
        length: maximum number of items that a model reads.
        queries_per_batch: number of users per batch.
        irrelevant: ``"all"`` for the whole catalogue, shared by all rows, or a number of distinct items, shared by the
            rows of a batch, after the relevant ones. A row masks its own relevant items among them; all sets of
            irrelevant items are equally likely, so that the mean over them is unbiased. The number is at least one more
            than the relevant items of an entry, so that each row has an irrelevant item.
        targets: relevant items at each entry, from :func:`next_items`; by default the item of the entry.
        windows: entries of a longer history that are rows: the ``"last"`` ones, or a ``"random"`` window per epoch.
            With ``"sliding"``, each of a history's successive windows of ``length`` rows is visited once per epoch, and
            ``queries_per_batch`` counts windows. With ``"prefix"``, so is each entry: a row of its own, after as many
            of the items before it as the model reads; ``queries_per_batch`` counts entries.
        packed: whether slates have a ``packing``, so that a model reads histories without padding. With
            ``partial="pad"``, histories share bins and rows are padded, so that few shapes occur.

    >>> histories = CSR.from_lengths([3, 1], item=[5, 6, 7, 5], label=[1.0, 1.0, 1.0, 1.0])
    >>> relevance = Relevance.from_pairs([0, 0, 0, 1], [5, 6, 7, 5], num_items=9)
    >>> slate = SequenceSampler(relevance, histories, length=4, queries_per_batch=2).draw([0, 1])
    >>> slate.query.tolist(), slate.column.squeeze(1).tolist(), slate.item.shape
    ([0, 1, 2, 3], [5, 6, 7, 5], torch.Size([1, 9]))
    """

    one_shape = False

    def __init__(
        self,
        relevance: Relevance,
        histories: CSR,
        length: int,
        queries_per_batch: int = 128,
        irrelevant: int | str = "all",
        seed: int = 0,
        *,
        targets: Relevance | None = None,
        windows: str = "last",
        packed: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(relevance, queries_per_batch, "all", irrelevant, seed, **options)
        if not relevance.is_catalogue or len(histories) != relevance.num_relevant.shape[0]:
            fail("histories", f"of {len(histories)} users", f"those of the users of {relevance}")
        partial = ("short", "pad") if packed else ("short",)
        if self.partial not in partial or self.length is not None:
            fail("options", sorted(options), "neither partial nor length, since the number of rows per user varies")
        self.packed, self.few_shapes = packed, packed and self.partial == "pad"
        self.histories, self.window = histories, check_int("length", length)
        self.windows = check_choice("windows", windows, WINDOWS)
        self.targets = next_items(histories, relevance.num_items) if targets is None else targets
        entries = histories["item"].shape[0]
        if (self.targets.num_queries, self.targets.num_items) != (entries, relevance.num_items):
            fail("targets", repr(self.targets), f"{entries} entries and {relevance.num_items} items")
        self._ideal = self.targets.ideal_dcg(self.k, self.gain)
        if self.irrelevant != "all":
            enough = max(int(self.irrelevant), self.targets.max_relevant + 1)
            self.irrelevant = "all" if enough >= relevance.num_items else enough
        # The entries that are rows are chosen on the CPU, to avoid GPU synchronisation.
        self._offsets = histories.offsets.cpu()
        relevant = self.targets.num_relevant > 0
        self._relevant = None if bool(relevant.all()) else relevant.cpu()
        stride = window_stride(self.windows, self.window)
        self._stride = stride or self.window
        self._lead: Tensor | None = None  # the first user or window of a batch that processes share
        self._visited: tuple[Tensor, Tensor, Tensor] | None = None
        if stride is not None:
            self._visited = _, first, size = target_windows(self._offsets, stride)
            before = running_total(relevant.cpu().long())
            self._queries = (before[first + size] > before[first]).nonzero().squeeze(1)
            if self.shared is not None:  # by window instead of user
                bounds = torch.searchsorted(self._visited[0], torch.tensor(self.shared.own)).tolist()
                self.shared = SharedBatches(self._queries, (bounds[0], bounds[1]))

    @property
    def columns(self) -> int:
        """L of the slates."""
        if self.irrelevant == "all":
            return self.relevance.num_items
        return self.targets.max_relevant + int(self.irrelevant)

    def _batches_at_once(self) -> int:
        return 1

    def order(self, epoch: int) -> Tensor:
        """The users, sliding windows or entries of an epoch, in order of visit, on the CPU."""
        return super().order(epoch).cpu()

    def draw(self, query: Tensor | Sequence[int], epoch: int | None = None) -> HistorySlate:
        """The slate of these users, or sliding windows or entries, in this epoch, by default the current one."""
        epoch = self.epoch if epoch is None else epoch
        return self.expanded(self._plan_of(self._local(torch.as_tensor(query, device="cpu")), epoch))

    def plan(self) -> Plan:
        """The plan of the current batch; :meth:`expand` makes the slate from it."""
        end = min(self.num_queries, self.position + self.queries_per_batch)
        return self._plan_of(self._local(self._batch(self.position, end, self.epoch)), self.epoch)

    def expanded(self, plan: Plan) -> HistorySlate:
        """The slate of a plan."""
        return self.expand(plan.shape, plan.numbers.to(self.relevance.device, non_blocking=True))

    def _draw_at(self, place: int, end: int, epoch: int) -> Slate:
        if self.partial != "pad":
            return super()._draw_at(place, end, epoch)
        return self.draw(self._batch(place, end, epoch), epoch)

    def _batch(self, place: int, end: int, epoch: int) -> Tensor:
        if self.shared is not None:
            self._lead = self._local(self.order(epoch)[place : place + 1])
        return super()._batch(place, end, epoch)

    def _somebody(self) -> Tensor:
        own = super()._somebody()
        return own if bool((own == self._queries).any()) else self._queries[:1]

    def _local(self, query: Tensor) -> Tensor:
        """Positions of users; windows and entries are counted in this shard."""
        return query - self.relevance.query_range[0] if self._visited is None else query

    def parts(self, query: Tensor, size: int) -> Iterator[Slate]:
        """The slate of a batch in parts of at most about ``size`` rows, which share the batch's items.

        Users are grouped by history length; without packing they are padded to the longest, so that ``size`` also
        limits the model's input. A part has at least one user.
        """
        number = self._local(query.cpu())
        shared = self._common(number if self._lead is None else self._lead, self.epoch)
        _, begin, end = self._bounds(number)
        rows = (end - begin).clamp(max=self.window)
        rows, order = rows.sort(descending=True, stable=True)
        sizes, used, longest = [0], 0, 0
        for count in rows.tolist():
            needed = used + count if self.packed else (sizes[-1] + 1) * longest
            if sizes[-1] and needed > size:
                sizes.append(0)
                used = 0
            longest = longest if sizes[-1] else count
            used, sizes[-1] = used + count, sizes[-1] + 1
        for part in torch.split(number[order], sizes):
            yield self._rows(part, self.epoch, shared)

    def _rows(self, number: Tensor, epoch: int, shared: Tensor | None) -> HistorySlate:
        return self.expanded(self._plan(number, epoch, shared))

    def _plan_of(self, number: Tensor, epoch: int) -> Plan:
        return self._plan(number, epoch, self._common(number if self._lead is None else self._lead, epoch))

    def _plan(self, number: Tensor, epoch: int, shared: Tensor | None) -> Plan:
        of_rows, of_users, width = self._entries(number, epoch)
        rows, packing = of_rows.shape[1], None
        if self.packed:
            length = of_users[2] + 1
            if self.few_shapes:
                most = self.queries_per_batch * self._stride
                of_rows = _padded_columns(of_rows, min(rounded_up(rows), max(most, rows)), place=-1)
                of_users = _padded_columns(of_users, self.queries_per_batch)
                wide, width = -(-(self.window + 1) // _BIN) * _BIN, self.window
                packing = pack_in_bins(length, wide, fewest=of_rows.shape[1] // wide + 1)
            else:
                packing = pack_by_length(length)
        parts = [of_rows.reshape(-1), of_users.reshape(-1), *([] if shared is None else [shared])]
        groups: tuple[Group, ...] = ()
        positions, in_bins = 0, False
        if packing is not None:
            start = torch.nn.functional.pad(packing.start, (0, of_users.shape[1] - packing.start.shape[0]))
            parts += [start, packing.history]
            groups, positions, in_bins = packing.groups, packing.history.shape[0], packing.shared
        numbers = torch.cat(parts)
        common = None if shared is None else shared.shape[0]
        shape = PlanShape(of_rows.shape[1], of_users.shape[1], positions, common, width, groups, in_bins)
        if self.relevance.device.type == "cuda":
            numbers = numbers.pin_memory()
        return Plan(shape, rows, numbers)

    def expand(self, shape: PlanShape, numbers: Tensor) -> HistorySlate:
        """The slate of a plan whose numbers are on the device; without synchronisation."""
        of_rows, of_users, common, *packed = torch.split(numbers, shape.sizes)
        shared = None if shape.common is None else common
        entry, owner, before = of_rows.view(3, -1).unbind()
        user, begin, count = of_users.view(3, -1).unbind()
        real = before >= 0 if self.few_shapes else None
        before = before.clamp_min(0)
        packing = Packing(packed[0], packed[1], shape.groups, shape.shared_bins) if packed else None
        targets, rows = self.targets, entry.shape[0]
        place = torch.arange(targets.max_relevant, device=entry.device)
        total = targets.num_relevant[entry]
        there = place < total.unsqueeze(1)
        there = there if real is None else there & real.unsqueeze(1)
        pair = torch.where(there, targets.indptr[entry].unsqueeze(1) + place, -1)
        item = torch.where(there, targets.item[pair].long(), 0)
        label = torch.where(there, targets.label[pair], 0.0)
        if shared is None:
            whole = torch.arange(self.columns, device=entry.device).unsqueeze(0)
            parts: dict[str, Any] = {"item": whole, "mask": torch.ones_like(whole, dtype=torch.bool), "column": item}
            labels = torch.zeros(rows, self.columns, dtype=label.dtype, device=entry.device)
            # An entry without an item repeats the write of the first one.
            labels.scatter_(1, torch.where(there, item, item[:, :1]), torch.where(there, label, label[:, :1]))
        else:
            mask = torch.ones(rows, shared.shape[0], dtype=torch.bool, device=entry.device)
            for own in torch.where(there, item, -1).unbind(1):
                mask &= shared != own.unsqueeze(1)
            mask = mask if real is None else mask & real.unsqueeze(1)
            parts = {"item": torch.cat([item, shared.expand(rows, -1)], dim=1), "mask": torch.cat([there, mask], dim=1)}
            labels = torch.cat([label, label.new_zeros(rows, shared.shape[0])], dim=1)
        return HistorySlate(
            query=entry,
            begin=begin,
            count=count,
            width=shape.width,
            row=owner,
            place=before,
            real=real,
            packing=packing,
            label=labels,
            pair=pair,
            list_size=torch.full_like(entry, self.relevance.num_items),
            num_relevant=total,
            ideal_dcg=self._ideal[entry],
            k=self.k,
            gain=self.gain,
            row_weight=None if self.query_weight is None else self.query_weight[user][owner],
            complete=True,
            whole=shared is None,
            **parts,
        )

    def _entries(self, number: Tensor, epoch: int) -> tuple[Tensor, Tensor, int]:
        """The entries that are rows, and the model's input, on the CPU.

        [3, B]: entry, position of its user, number of items read before it; [3, U]: user, start and number of the items
        to read; and the maximum of these numbers.
        """
        user, begin, end = self._bounds(number)
        first = torch.maximum(begin, end - self._stride)
        size = end - first
        if self.windows == "random":
            visited = user + self.relevance.query_range[0]
            fraction = random_fractions(visited + derive_key(self.seed, epoch, _WINDOW), 1).squeeze(1)
            first = torch.minimum(begin + (fraction * (first - begin + 1)).long(), first)
        owner = segment_rows(size)
        entry = torch.arange(owner.shape[0]) + (first - running_total(size)[:-1])[owner]
        if self._relevant is not None:
            relevant = self._relevant[entry]
            entry, owner = entry[relevant], owner[relevant]
        last = first + size - 1
        read = torch.maximum(begin, last - self.window)
        count = (last - read).clamp_min(0)
        width = int(count.max()) if count.numel() else 0
        return torch.stack([entry, owner, entry - read[owner]]), torch.stack([user, read, count]), width

    def _bounds(self, number: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The users of these users or windows, and the entries that may be read: from the first to the window's end."""
        if self._visited is None:
            return number, self._offsets[number], self._offsets[number + 1]
        user, first, size = (column[number] for column in self._visited)
        return user, self._offsets[user], first + size

    def _common(self, number: Tensor, epoch: int) -> Tensor | None:
        """[M]: the items shared by all rows of a batch, a function of seed, epoch and first user or window."""
        if self.irrelevant == "all":
            return None
        key = number[:1] + self.relevance.query_range[0] + derive_key(self.seed, epoch, _SHARED)
        return _different(key, int(self.irrelevant), self.relevance.num_items)


def _padded_columns(table: Tensor, columns: int, place: int = 0) -> Tensor:
    """[3, columns]: the table with copies of its first column, whose last number is ``place``."""
    missing = columns - table.shape[1]
    first = table[:, :1].clone()
    first[2] = place
    return torch.cat([table, first.expand(-1, missing)], 1)


def _different(key: Tensor, count: int, items: int) -> Tensor:
    """[count]: distinct items, uniform over all sets of that size; ``key`` [1] is the seed."""
    if 2 * count > items:
        return random_fractions(key, items)[0].argsort(stable=True)[:count]
    drawn = 2 * count
    while True:  # except in rare cases, 2 · count draws have count distinct items
        item = (random_fractions(key, drawn)[0] * items).long()
        different, which = item.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        if different.shape[0] >= count:
            first = torch.full_like(different, drawn).scatter_reduce_(0, which, torch.arange(drawn), "amin")
            return item[first.sort().values[:count]]
        drawn *= 2
