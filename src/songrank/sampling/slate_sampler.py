"""From Relevance to slates, reproducibly, on the device of the relevance."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from songrank.core.checks import check_choice, check_int, fail
from songrank.core.gains import Gain
from songrank.core.hashing import derive_key, random_bits
from songrank.core.relevance import Relevance
from songrank.core.slate import Slate
from songrank.sampling import drawing
from songrank.sampling.item_draws import Spread, draw_distinct, irrelevant_items
from songrank.sampling.shared_batches import SharedBatches, muted

_ORDER, _RELEVANT, _IRRELEVANT = range(3)
_CELLS_AT_ONCE = 2**21


class SlateSampler:
    """Yields slates with every query with a relevant item once per epoch; order and items come from a hash.

    The items of a query depend only on (seed, epoch, query): they are the same on CPU and GPU, in any batch, in one
    process or in eight with a shard each, resumed or not. Iterating yields the rest of the current epoch;
    :meth:`state_dict` is the position after the last yielded slate.

    Args:
        relevance: the relevance, or the shard of this process; slates are on its device.
        queries_per_batch: B, number of queries per batch.
        relevant: number of relevant items per query, drawn without replacement, or ``"all"``. At least two are drawn if
            a query has two, which an unbiased ĝ requires.
        irrelevant: number of distinct irrelevant items per query; ``"all"`` for the full list, including the relevant
            items that are not drawn (full-items training, and whole lists in a list task).
        seed: random seed.
        k: K of the slates' ideal DCG, for top-K NDCG.
        gain: gain of a label: ``"exp2"``, ``"linear"`` or a function.
        length: list length in columns, instead of ``relevant`` and ``irrelevant``: relevant and irrelevant items are
            drawn in proportion, with at least one of each kind; counts are those of the full list.
        query_weight: [Q], weight of each query in the batch mean; None for equal weights. A weight of 2 equals drawing
            the query twice. Sampling does not depend on it.
        partial: last batch of an epoch: ``"short"``, ``"pad"`` (with rows of weight 0, so that all batches have the
            same shape) or ``"drop"``.
        stream: number of this sampler, from 0, among several with the same seed that draw independently.
        shared: the queries of all processes, if several draw the batches together: a batch has ``queries_per_batch``
            queries on all processes, and slates have those of this process. A slate without any has one row of padding.

    >>> relevance = Relevance.from_pairs([0, 0, 0, 1], [1, 4, 2, 3], [1.0, 2.0, 1.0, 1.0], num_items=8)
    >>> sampler = SlateSampler(relevance, queries_per_batch=2, relevant=2, irrelevant=3)
    >>> slate = next(iter(sampler))
    >>> slate.item.shape, slate.list_size.tolist()
    (torch.Size([2, 5]), [8, 8])
    """

    muted: bool
    """Whether the last slate has no query of its batch, which are all on other processes."""
    padded = False
    """Whether to pad slates of shared batches to ``rows_here`` rows, so that all have the same shape."""
    one_shape = True
    """Whether all slates of an epoch can have the same shape, so that a step can be captured."""
    few_shapes = False
    """Whether slates have few shapes, so that a step can be captured for each."""

    def __init__(
        self,
        relevance: Relevance,
        queries_per_batch: int = 256,
        relevant: int | str = 10,
        irrelevant: int | str = 300,
        seed: int = 0,
        k: int | None = None,
        gain: Gain = "exp2",
        *,
        length: int | None = None,
        query_weight: Tensor | None = None,
        partial: str = "short",
        stream: int | None = None,
        shared: SharedBatches | None = None,
    ) -> None:
        if not isinstance(relevance, Relevance):
            fail("relevance", type(relevance).__name__, "a songrank.Relevance", TypeError)
        self.relevance = relevance
        self.queries_per_batch = check_int("queries_per_batch", queries_per_batch)
        self.relevant = relevant if relevant == "all" else max(check_int("relevant", relevant), 2)
        self.irrelevant = irrelevant if irrelevant == "all" else check_int("irrelevant", irrelevant)
        self.seed = check_int("seed", seed, 0)
        self.k = None if k is None else check_int("k", k)
        self.gain = gain
        self.length = None if length is None else check_int("length", length, 3)
        self.query_weight = _check_weight(query_weight, relevance, of_some=shared is None)
        self.partial = check_choice("partial", partial, ("short", "pad", "drop"))
        self.epoch = 0
        self.position = 0
        self.num_relevant = relevance.indptr.diff()
        self.shared = shared
        self._queries = torch.nonzero(self.num_relevant > 0).squeeze(-1) + relevance.query_range[0]
        if shared is not None:
            self._queries = shared.queries.to(relevance.device)
            self._width = shared.width(self.queries_per_batch)
        if self._queries.numel() == 0:
            fail("relevance", repr(relevance), "at least one query with a relevant item")
        if len(self) == 0:
            most = f"at most {self.num_queries}, the number of queries, with partial='drop'"
            fail("queries_per_batch", queries_per_batch, most)
        self._order: tuple[int, Tensor] | None = None
        self._own: tuple[int, Tensor, list[int]] | None = None
        self.muted = False
        self._iteration = 0
        if stream is not None:
            self.seed = derive_key(seed, stream) % 2**31
        pairs = relevance.item, relevance.label
        # One of several processes may have queries without pairs only; padding then reads an entry of its own.
        self._item, self._label = pairs if relevance.item.numel() else (part.new_zeros(1) for part in pairs)
        self.list_size = relevance.list_size
        self.ideal_dcg = relevance.ideal_dcg(self.k, gain)

    def __repr__(self) -> str:
        sizes = f"relevant={self.relevant!r}, irrelevant={self.irrelevant!r}"
        sizes = sizes if self.length is None else f"length={self.length}"
        k = "" if self.k is None else f", k={self.k}"
        queries = f"queries_per_batch={self.queries_per_batch}"
        return f"SlateSampler({self.relevance!r}, {queries}, {sizes}, seed={self.seed}{k})"

    @property
    def num_queries(self) -> int:
        """Number of queries per epoch: those with a relevant item, on all processes that share the batches."""
        return self._queries.shape[0]

    def __len__(self) -> int:
        """Number of slates per epoch."""
        full, rest = divmod(self.num_queries, self.queries_per_batch)
        return full + (rest > 0 and self.partial != "drop")

    def __iter__(self) -> Iterator[Slate]:
        """Yield the remaining slates of the current epoch."""
        self._iteration += 1
        iteration, size = self._iteration, self.queries_per_batch
        end = min(self.num_queries, len(self) * size)
        if self.position >= end:
            self.epoch, self.position = self.epoch + 1, 0
        epoch, place = self.epoch, self.position
        drawn, ahead, together = None, 0, self._batches_at_once()
        while place < end:
            if iteration != self._iteration:
                why = "another iteration was started, or a state was loaded"
                raise RuntimeError(f"iterator is stale: {why}; iterate again")
            if drawn is None or together == 1 or ahead >= drawn.query.shape[0]:
                drawn, ahead = self._draw_at(place, min(end, place + together * size), epoch), 0
            place += size
            # Advanced before the yield, so that a checkpoint written after the step resumes with the next slate.
            self.epoch, self.position = (epoch, place) if place < end else (epoch + 1, 0)
            yield drawn.rows(ahead, ahead + size) if together > 1 and drawn.query.shape[0] > size else drawn
            ahead += size

    def _batch(self, place: int, end: int, epoch: int) -> Tensor:
        """The queries of batches from ``place`` to ``end`` in the order of visit; of one batch if it is shared."""
        if self.shared is None:
            return self.order(epoch)[place:end]
        own, bounds = self._split(epoch)
        number = place // self.queries_per_batch
        return own[bounds[number] : bounds[number + 1]]

    def _split(self, epoch: int) -> tuple[Tensor, list[int]]:
        """The queries of an epoch that this process draws, in order, and their bounds by batch."""
        assert self.shared is not None
        if self._own is None or self._own[0] != epoch:
            self._own = epoch, *self.shared.split(self.order(epoch), self.queries_per_batch)
        return self._own[1], self._own[2]

    @property
    def rows_here(self) -> int:
        """The number of rows of a padded batch: of shared batches, enough for nearly all of them."""
        return self.queries_per_batch if self.shared is None else self._width

    def fits(self, epoch: int) -> bool:
        """Whether no batch of the epoch has more than ``rows_here`` rows on this process."""
        if self.shared is None:
            return True
        return max(last - first for first, last in pairwise(self._split(epoch)[1])) <= self.rows_here

    def padded_order(self, epoch: int) -> Tensor:
        """[batches · rows_here]: the queries of an epoch that fits, by batch; padding is −1 − a query of the batch."""
        rows = self.rows_here
        if self.shared is None:
            order = self.order(epoch)[: len(self) * rows]
            padding = -1 - order[(len(self) - 1) * rows]
            return torch.cat([order, padding.expand(len(self) * rows - order.shape[0])])
        own, bounds = self._split(epoch)
        ends = torch.tensor(bounds, device=own.device)
        count = ends.diff()
        first = own[ends[:-1].clamp(max=max(own.shape[0] - 1, 0))] if own.shape[0] else self._somebody()
        order = torch.where(count > 0, -1 - first, -1 - self._somebody()).unsqueeze(1).repeat(1, rows)
        batch = torch.repeat_interleave(count)
        order[batch, torch.arange(own.shape[0], device=own.device) - ends[batch]] = own
        return order.flatten()

    def _draw_at(self, place: int, end: int, epoch: int) -> Slate:
        query = self._batch(place, end, epoch)
        self.muted = self.shared is not None and query.shape[0] == 0 and not self.padded
        if self.muted:
            return muted(self.draw(self._somebody(), epoch))
        return self._padded(query, epoch) if self.partial == "pad" or self.padded else self.draw(query, epoch)

    def _somebody(self) -> Tensor:
        """A query that can be drawn here, with a relevant item if there is one."""
        assert self.shared is not None
        first, last = self.shared.own
        at = torch.searchsorted(self._queries, first)
        found = self._queries[at.clamp(max=self._queries.shape[0] - 1)]
        return torch.where((found >= first) & (found < last), found, first).view(1)

    def _batches_at_once(self) -> int:
        """Number of batches drawn together, for throughput on a GPU; results do not depend on it."""
        if self.relevance.device.type != "cuda" or self.shared is not None:
            return 1
        return max(1, _CELLS_AT_ONCE // (self.columns * self.queries_per_batch))

    @property
    def pair_columns(self) -> int:
        """P of the slates."""
        most = self.relevance.max_relevant
        if self.length is not None:
            return min(most, self.length)
        return most if self.relevant == "all" else int(self.relevant)

    @property
    def columns(self) -> int:
        """L of the slates."""
        if self.length is not None:
            return self.length
        return self.relevance.max_span if self.irrelevant == "all" else self.pair_columns + int(self.irrelevant)

    @property
    def batches_left(self) -> int:
        """Number of slates left in the current epoch."""
        return len(self) - self.position // self.queries_per_batch

    def advance(self) -> None:
        """Advance by one batch that was drawn elsewhere."""
        self._iteration += 1
        place = self.position + self.queries_per_batch
        self.epoch, self.position = (self.epoch, place) if place < self.num_queries else (self.epoch + 1, 0)

    def keys(self, epoch: int) -> tuple[int, int]:
        """Hash keys of an epoch for relevant and irrelevant items; hashing a query with each gives a row's key."""
        return derive_key(self.seed, epoch, _RELEVANT), derive_key(self.seed, epoch, _IRRELEVANT)

    def order(self, epoch: int) -> Tensor:
        """The queries of an epoch, in order of visit."""
        if self._order is None or self._order[0] != epoch:
            ticket = random_bits(derive_key(self.seed, epoch, _ORDER), self._queries)
            self._order = epoch, self._queries[ticket.argsort(stable=True)]
        return self._order[1]

    def state_dict(self) -> dict[str, Any]:
        """The sampler's position, as whole numbers."""
        return {"seed": self.seed, "epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from the position of a sampler of the same relevance and sizes."""
        if {"seed", "epoch", "position"} - set(state):
            fail("state", sorted(state), "the keys 'seed', 'epoch' and 'position'")
        position = check_int("state['position']", state["position"], 0)
        if position >= self.num_queries:
            fail("state['position']", position, f"a number below {self.num_queries}, the number of queries")
        self.epoch, self.position = check_int("state['epoch']", state["epoch"], 0), position
        self.seed = check_int("state['seed']", state["seed"], 0)
        self._order = self._own = None
        self._iteration += 1

    def draw(self, query: Tensor | Sequence[int], epoch: int | None = None) -> Slate:
        """The slate of these queries in this epoch, by default the current one, independent of batch and order."""
        epoch = self.epoch if epoch is None else epoch
        query = torch.as_tensor(query, device=self.relevance.device)
        relevance, (first, last) = self.relevance, self.relevance.query_range
        # Ids are not checked on a GPU, which would synchronise.
        if query.device.type == "cpu" and query.numel():
            least, most = (int(end) for end in query.aminmax())
            if least < first or most >= last:
                fail("query", (least, most), f"queries from {first} to {last - 1}, those held here")
        local = query - first
        if self.irrelevant == "all" and self.length is None:
            return self._whole_lists(query, local, epoch)
        if drawing.serves(self):
            return drawing.draw(self, query, epoch)
        total, size = self.num_relevant[local], self.list_size[local]
        width, columns = self.pair_columns, self.columns
        kept, others = self._allocate(total, size - total)
        row, active = _entries(relevance.indptr[local], kept, self._choose(query, total, kept, epoch), relevance.item)
        key = random_bits(self.keys(epoch)[1], query)
        spread = Spread.draw(key, kept, others, size - total, columns)
        item = irrelevant_items(relevance, local, spread)
        if relevance.list_start is not None:
            item = item + relevance.list_start[local].unsqueeze(1)
        mask = torch.arange(columns, device=query.device) < (kept + others).unsqueeze(1)
        item.mul_(mask)
        item[:, :width] = torch.where(active, self._item[row].long(), item[:, :width])
        label = torch.zeros(item.shape, dtype=relevance.label.dtype, device=query.device)
        label[:, :width] = torch.where(active, self._label[row], label[:, :width])
        pair = torch.where(active, row + relevance.pair_range[0], -1)
        return self._slate(query, local, complete=True, item=item, label=label, mask=mask, pair=pair)

    def batch_parts(self, size: int) -> Iterator[Slate]:
        """The slate of the current batch in parts of ``size`` rows, drawn lazily."""
        query = self._batch(self.position, min(self.num_queries, self.position + self.queries_per_batch), self.epoch)
        self.muted = self.shared is not None and query.shape[0] == 0
        yield from self.parts(query, size) if not self.muted else (muted(self.draw(self._somebody())),)

    def parts(self, query: Tensor, size: int) -> Iterator[Slate]:
        """The slate of a batch of the current epoch in parts of ``size`` rows, drawn lazily."""
        for part in torch.split(query, size):
            yield self.draw(part)

    def _allocate(self, total: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
        """Numbers of relevant and irrelevant items of each row."""
        if self.length is None:
            return total.clamp(max=self.pair_columns), rest.clamp(max=int(self.irrelevant))
        length = self.length
        size = (total + rest).clamp_min(1)
        share = torch.div(2 * length * total + size, 2 * size, rounding_mode="floor")
        least = torch.maximum(total.clamp(max=2), length - rest)
        room = length - rest.clamp(max=1)
        kept = torch.minimum(torch.minimum(torch.maximum(share, least), total), room)
        return kept, torch.minimum(rest, length - kept)

    def _choose(self, query: Tensor, total: Tensor, kept: Tensor, epoch: int) -> Tensor:
        width = self.pair_columns
        if self.relevant == "all" and self.length is None:
            return torch.arange(width, device=query.device).expand(query.shape[0], width)
        return draw_distinct(random_bits(self.keys(epoch)[0], query), total, kept, width)

    def _whole_lists(self, query: Tensor, local: Tensor, epoch: int) -> Slate:
        relevance, columns = self.relevance, self.relevance.max_span
        first = 0 if relevance.list_start is None else relevance.list_start[local].unsqueeze(1)
        place = torch.arange(columns, device=query.device).unsqueeze(0)
        mask = place < relevance.list_span[local].unsqueeze(1)
        item = place if relevance.is_catalogue else torch.where(mask, place + first, 0)
        label = torch.zeros(query.shape[0], columns + 1, dtype=relevance.label.dtype, device=query.device)
        everything = torch.arange(relevance.max_relevant, device=query.device)
        start, total = relevance.indptr[local], self.num_relevant[local]
        at, there = _entries(start, total, everything, relevance.item)
        label.scatter_(1, torch.where(there, self._item[at] - first, columns), self._label[at])
        if relevance.taken_item is not relevance.item:
            mask = mask & ~self._excluded(local, label[:, :columns])
        kept = total.clamp(max=self.pair_columns)
        row, active = _entries(start, kept, self._choose(query, total, kept, epoch), relevance.item)
        column = torch.where(active, self._item[row] - first, torch.zeros_like(row))
        pair = torch.where(active, row + relevance.pair_range[0], -1)
        parts = {"item": item, "label": label[:, :columns], "mask": mask, "pair": pair, "column": column}
        return self._slate(query, local, complete=self.pair_columns >= relevance.max_relevant, **parts)

    def _excluded(self, local: Tensor, label: Tensor) -> Tensor:
        """[B, items]: taken but not relevant; only catalogues have exclusions."""
        relevance, everything = self.relevance, torch.arange(self.relevance.max_taken, device=local.device)
        start, stop = relevance.taken_indptr[local], relevance.taken_indptr[local + 1]
        at, there = _entries(start, stop - start, everything, relevance.taken_item)
        taken = torch.zeros(label.shape[0], label.shape[1] + 1, dtype=torch.bool, device=local.device)
        taken.scatter_(1, torch.where(there, relevance.taken_item[at].long(), label.shape[1]), True)
        return taken[:, :-1] & (label == 0)

    def _slate(self, query: Tensor, local: Tensor, *, complete: bool, **parts: Any) -> Slate:
        return Slate(
            query=query,
            list_size=self.list_size[local],
            num_relevant=self.num_relevant[local],
            ideal_dcg=self.ideal_dcg[local],
            k=self.k,
            gain=self.gain,
            row_weight=None if self.query_weight is None else self.query_weight[local],
            complete=complete,
            **parts,
        )

    def _padded(self, query: Tensor, epoch: int) -> Slate:
        if self.shared is None:
            missing = -query.shape[0] % self.queries_per_batch
            begin = query.shape[0] + missing - self.queries_per_batch  # of the last batch
            repeated = query[begin : begin + 1]
        else:
            missing = self.rows_here - query.shape[0]
            repeated = query[:1] if query.shape[0] else self._somebody()
        weight = torch.ones(query.shape[0] + missing, device=query.device)
        if missing:
            query = torch.cat([query, repeated.expand(missing)])
            weight[-missing:] = 0.0
        slate = self.draw(query, epoch)
        real = (weight > 0).unsqueeze(1)
        assert slate.pair is not None
        return replace(
            slate,
            mask=slate.mask & real,
            pair=torch.where(real, slate.pair, -1),
            row_weight=weight if slate.row_weight is None else weight * slate.row_weight,
        )


def _check_weight(weight: Tensor | None, relevance: Relevance, *, of_some: bool) -> Tensor | None:
    """Validated weights of the queries held here, as float32 on the relevance's device; ``of_some``: one above 0."""
    if weight is None:
        return None
    first, last = relevance.query_range
    if not isinstance(weight, Tensor) or weight.shape != (last - first,):
        fail("query_weight", getattr(weight, "shape", type(weight).__name__), f"a tensor of shape [{last - first}]")
    weight = weight.to(relevance.device, torch.float32)
    if not bool((weight.isfinite() & (weight >= 0)).all()) or (of_some and not bool((weight > 0).any())):
        fail("query_weight", "negative, not finite or all zero", "finite weights of at least 0, at least one above 0")
    return weight


def _entries(start: Tensor, count: Tensor, order: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Positions in a flat array of each row's first ``count`` entries, in ``order``, and whether they exist."""
    at = (start.unsqueeze(1) + order).clamp(0, max(values.shape[0] - 1, 0))
    return at, torch.arange(order.shape[-1], device=start.device) < count.unsqueeze(1)
