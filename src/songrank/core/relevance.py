"""The table of relevant pairs shared by samplers, losses and evaluation."""

import itertools
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from songrank.core.checks import check_int, fail
from songrank.core.columns import ArrayLike, check_count, check_same_length, read_ids, read_labels
from songrank.core.csr import CSR, offsets, partition_point, search_depth, segment_rows
from songrank.core.gains import Gain, discounts, gains
from songrank.core.pairs import check_distinct, check_keys, check_size, key_table, merge, sorted_keys

_Table = tuple[Tensor, Tensor]  # bounds by query, and items


@dataclass(frozen=True, eq=False, repr=False)
class Relevance:
    """Immutable CSR table of the relevant pairs (q, x) with y > 0, sorted by query and item, on any device.

    Build it with :meth:`from_pairs` (all queries rank the same catalogue) or :meth:`from_lists` (each query has its own
    documents). The row of a pair identifies it in the memory of losses. Memory is 8 bytes per pair, plus 4
    per pair and exclusion if there are exclusions.

    >>> relevance = Relevance.from_pairs(query=[0, 0, 1], item=[2, 0, 1], label=[1.0, 3.0, 2.0], num_items=4)
    >>> relevance
    Relevance(catalogue, 2 queries, 4 items, 3 pairs)
    >>> relevance.num_relevant.tolist(), relevance.list_size.tolist()
    ([2, 1], [4, 4])
    >>> relevance.pair_index([0, 0, 1], [0, 1, 1]).tolist()
    [0, -1, 2]
    """

    num_queries: int
    """Number of queries in all shards."""
    num_items: int
    """Catalogue task: number of items. List task: number of documents; an item is a row of the feature matrix."""
    num_pairs: int
    """Number of relevant pairs in all shards."""
    query_range: tuple[int, int]
    """The range of queries in this shard. Tensors below have one entry per query of the shard."""
    pair_range: tuple[int, int]
    """The range of these queries' pairs in the full table."""
    indptr: Tensor
    """[queries + 1]: the start of each query's pairs in ``item`` and ``label``."""
    item: Tensor
    label: Tensor
    list_start: Tensor | None
    """List task: the first document of each query. None for a catalogue."""
    list_span: Tensor
    """Number of candidates of each query, before exclusions."""
    taken_indptr: Tensor
    taken_item: Tensor
    """Relevant and excluded items, sorted; all other items are irrelevant."""
    max_relevant: int
    max_taken: int
    max_span: int
    _ideal: dict[tuple[int | None, Gain], Tensor] = field(default_factory=dict)

    @classmethod
    def from_pairs(
        cls,
        query: ArrayLike,
        item: ArrayLike,
        label: ArrayLike | None = None,
        num_queries: int | None = None,
        num_items: int | None = None,
        exclude: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> "Relevance":
        """Catalogue task: every query ranks all ``num_items`` items except those excluded for it.

        Args:
            query: query of each pair, from 0.
            item: item of each pair, from 0.
            label: relevance y ≥ 0 of each pair, 1 by default; pairs with y = 0 are irrelevant and dropped.
            num_queries: number of queries; by default the largest id + 1.
            num_items: number of items; by default the largest id + 1.
            exclude: (query, item) of pairs that are not candidates, such as seen items.
        """
        queries = read_ids("query", query)
        items = read_ids("item", item).to(queries.device)
        labels = torch.ones(queries.shape[0]) if label is None else read_labels("label", label)
        labels = labels.to(queries.device)
        check_same_length("item", items, "query", queries)
        check_same_length("label", labels, "query", queries)
        barred = [read_ids(f"exclude[{at}]", column).to(queries.device) for at, column in enumerate(exclude or ())]
        if barred:
            check_same_length("exclude[1]", barred[1], "exclude[0]", barred[0])
        num_queries = check_count("num_queries", num_queries, "query", [queries, *barred[:1]])
        num_items = check_count("num_items", num_items, "item", [items, *barred[1:]])
        check_size(num_queries, num_items)
        keys, order = sorted_keys(queries, items, num_items, "pair")
        barred_keys = sorted_keys(barred[0], barred[1], num_items, "excluded pair")[0] if barred else None
        return cls.from_keys(keys, labels if order is None else labels[order], num_queries, num_items, barred_keys)

    @classmethod
    def from_keys(
        cls, keys: Tensor, labels: Tensor, num_queries: int, num_items: int, exclude: Tensor | None = None
    ) -> "Relevance":
        """:meth:`from_pairs` from distinct ascending keys query · ``num_items`` + item.

        >>> Relevance.from_keys(torch.tensor([3, 7]), torch.ones(2), num_queries=2, num_items=5)
        Relevance(catalogue, 2 queries, 5 items, 2 pairs)
        """
        check_size(num_queries, num_items)
        labels = read_labels("labels", labels)
        check_same_length("labels", labels, "keys", keys)
        for name, some in (("keys", keys), ("exclude", exclude)):
            check_keys(name, some, num_queries * num_items)
        kept = labels > 0
        keys, labels = keys[kept], labels[kept]
        pairs = taken = key_table(keys, num_queries, num_items)
        if exclude is not None:
            both = merge(keys, exclude)
            check_distinct(both, num_items, "is both relevant and excluded; remove one of the two")
            taken = key_table(both, num_queries, num_items)
        return cls._build(num_items, pairs, labels, None, torch.full_like(pairs[0][1:], num_items), taken)

    @classmethod
    def from_rows(cls, pairs: CSR, num_items: int) -> "Relevance":
        """:meth:`from_keys` from rows of ascending items with positive labels, one row per query.

        >>> Relevance.from_rows(CSR.from_lengths([2, 1], item=[1, 4, 0], label=[1.0, 2.0, 3.0]), num_items=5)
        Relevance(catalogue, 2 queries, 5 items, 3 pairs)
        """
        check_size(len(pairs), num_items)
        label = pairs["label"]
        if not bool(torch.isfinite(label).all()):
            read_labels("labels", label)  # raises
        table = pairs.offsets, pairs["item"]
        return cls._build(num_items, table, label, None, torch.full_like(pairs.offsets[1:], num_items), table)

    @classmethod
    def from_lists(cls, labels: ArrayLike, lengths: ArrayLike) -> "Relevance":
        """List task: query q ranks its own ``lengths[q]`` documents, whose labels are consecutive in ``labels``.

        >>> Relevance.from_lists(labels=[0, 2, 0, 1, 0], lengths=[3, 2])
        Relevance(lists, 2 queries, 5 items, 2 pairs)
        """
        values = read_labels("labels", labels)
        sizes = read_ids("lengths", lengths).to(values.device)
        if int(sizes.sum()) != values.shape[0]:
            fail("lengths", f"a total of {int(sizes.sum())}", f"a total equal to the number of labels, {len(values)}")
        start = offsets(sizes)
        relevant = (values > 0).nonzero().squeeze(-1)
        pairs = torch.searchsorted(relevant, start), relevant.to(torch.int32)
        return cls._build(values.shape[0], pairs, values[relevant], start[:-1], sizes, pairs)

    @classmethod
    def _build(
        cls, num_items: int, pairs: _Table, label: Tensor, list_start: Tensor | None, list_span: Tensor, taken: _Table
    ) -> "Relevance":
        (indptr, item), (taken_indptr, taken_item) = pairs, taken
        num_queries, num_pairs = indptr.shape[0] - 1, item.shape[0]
        return cls(
            num_queries=num_queries,
            num_items=num_items,
            num_pairs=num_pairs,
            query_range=(0, num_queries),
            pair_range=(0, num_pairs),
            indptr=indptr,
            item=item,
            label=label,
            list_start=list_start,
            list_span=list_span,
            taken_indptr=taken_indptr,
            taken_item=taken_item,
            max_relevant=_largest(indptr.diff()),
            max_taken=_largest(taken_indptr.diff()),
            max_span=_largest(list_span),
        )

    @property
    def device(self) -> torch.device:
        """The device of the table."""
        return self.indptr.device

    @property
    def is_catalogue(self) -> bool:
        """Whether all queries rank the same items."""
        return self.list_start is None

    @property
    def num_relevant(self) -> Tensor:
        """[queries]: N_q⁺, the number of relevant items of each query."""
        return self.indptr.diff()

    @property
    def list_size(self) -> Tensor:
        """[queries]: N_q, the number of candidates of each query, without exclusions."""
        return self.list_span - (self.taken_indptr.diff() - self.num_relevant)

    def ideal_dcg(self, k: int | None = None, gain: Gain = "exp2") -> Tensor:
        """[queries]: Z_q, or Z_q^K with ``k``, the DCG of the ideal ranking; cached."""
        if k is not None:
            check_int("k", k)
        if (k, gain) not in self._ideal:
            self._ideal[k, gain] = self._compute_ideal_dcg(k, gain)
        return self._ideal[k, gain]

    def _compute_ideal_dcg(self, k: int | None, gain: Gain, pairs_at_once: int = 4_000_000) -> Tensor:
        ends = torch.searchsorted(self.indptr, torch.arange(0, self.item.shape[0], pairs_at_once, device=self.device))
        cuts = [0, *ends.tolist()[1:], self.indptr.shape[0] - 1]
        parts = [self._ideal_dcg_of(a, b, k, gain) for a, b in itertools.pairwise(cuts) if a < b]
        return torch.cat(parts) if parts else self.label.new_zeros(0)

    def _ideal_dcg_of(self, first: int, last: int, k: int | None, gain: Gain) -> Tensor:
        bounds = self.indptr[first : last + 1]
        row = segment_rows(bounds.diff())
        label, order = self.label[bounds[0] : bounds[-1]].sort(descending=True, stable=True)
        row, again = row[order].sort(stable=True)
        place = torch.arange(row.shape[0], device=self.device) - (bounds[:-1] - bounds[0])[row]
        value = gains(label[again].double(), gain) * discounts(place.double() + 1.0)
        if k is not None:
            value = torch.where(place < k, value, 0.0)
        total = torch.zeros(last - first, dtype=torch.float64, device=self.device).index_add_(0, row, value)
        ideal = total.to(self.label.dtype)
        bad = ~torch.isfinite(ideal)
        if bool(bad.any()):
            query = int(bad.nonzero()[0]) + first + self.query_range[0]
            found = f"as large as {float(label.max()):g}"
            fail(f"label of query {query}", found, "labels with finite gain; use gain='linear'")
        return ideal

    def pair_index(self, query: ArrayLike, item: ArrayLike) -> Tensor:
        """Row of each pair (query, item) in the full table, −1 for irrelevant pairs."""
        queries = read_ids("query", query).to(self.device) - self.query_range[0]
        items = read_ids("item", item).to(self.device)
        held = self.indptr.shape[0] - 1
        if queries.numel() and (int(queries.min()) < 0 or int(queries.max()) >= held):
            fail("query", "out of range", f"ids from {self.query_range[0]} to {self.query_range[1] - 1}")
        start, stop = self.indptr[queries], self.indptr[queries + 1]
        if self.item.numel() == 0:
            return torch.full_like(items, -1)
        place = partition_point(start, stop, search_depth(self.max_relevant), lambda at: self.item[at] < items)
        found = (place < stop) & (self.item[place.clamp(max=self.item.shape[0] - 1)] == items)
        return torch.where(found, place + self.pair_range[0], -1)

    def to(self, device: torch.device | str) -> "Relevance":
        """The same table on another device."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
        distinct = {id(value): value for value in tensors.values()}  # without exclusions, two tables are one object
        moved = {key: value.to(device) for key, value in distinct.items()}
        parts: dict[str, Any] = {name: moved[id(value)] for name, value in tensors.items()}
        return replace(self, **parts, _ideal={key: value.to(device) for key, value in self._ideal.items()})

    def shard(self, first: int, last: int) -> "Relevance":
        """The shard of queries ``first`` to ``last`` − 1, for one process; ids and rows keep their global values.

        >>> part = Relevance.from_pairs([0, 1, 1, 2], [0, 0, 1, 2]).shard(1, 3)
        >>> part.query_range, part.pair_range, part.num_queries
        ((1, 3), (1, 4), 3)
        """
        held_first, held_last = self.query_range
        if not held_first <= first < last <= held_last:
            fail("shard", (first, last), f"a non-empty subrange of {self.query_range}")
        queries = slice(first - held_first, last - held_first)
        pairs = taken = CSR(self.indptr, {"item": self.item, "label": self.label}).slice(queries.start, queries.stop)
        if self.taken_item is not self.item:
            taken = CSR(self.taken_indptr, {"item": self.taken_item}).slice(queries.start, queries.stop)
        before = self.pair_range[0] + int(self.indptr[queries.start])
        return replace(
            self,
            query_range=(first, last),
            pair_range=(before, before + pairs.num_entries),
            indptr=pairs.offsets,
            item=pairs["item"],
            label=pairs["label"],
            list_start=None if self.list_start is None else self.list_start[queries],
            list_span=self.list_span[queries],
            taken_indptr=taken.offsets,
            taken_item=taken["item"],
            _ideal={key: value[queries] for key, value in self._ideal.items()},
        )

    def as_shard(self, first: int, num_queries: int, first_item: int = 0, num_items: int | None = None) -> "Relevance":
        """The same table as a shard of a larger one of ``num_queries`` queries, from query ``first`` on.

        In a list task, its documents are those from ``first_item`` on, of ``num_items``.

        >>> Relevance.from_pairs([0, 1, 1], [0, 0, 1]).as_shard(3, num_queries=9)
        Relevance(catalogue, 9 queries, 2 items, 3 pairs, shard (3, 5))
        """
        held = first, first + self.indptr.shape[0] - 1
        found = replace(self, num_queries=num_queries, query_range=held)
        if self.list_start is None:
            return found
        item, sizes = self.item + first_item, self.num_items if num_items is None else num_items
        return replace(found, item=item, taken_item=item, list_start=self.list_start + first_item, num_items=sizes)

    def __repr__(self) -> str:
        part = "" if self.query_range == (0, self.num_queries) else f", shard {self.query_range}"
        kind = "catalogue" if self.is_catalogue else "lists"
        return f"Relevance({kind}, {self.num_queries} queries, {self.num_items} items, {self.num_pairs} pairs{part})"


def _largest(values: Tensor) -> int:
    return int(values.max()) if values.numel() else 0
