"""A catalogue with planted structure, and queries that draw its items without replacement.

Items have a popularity and belong to groups. A query has a taste vector u, a group has a vector v, and the query draws
item i of group g with

    weight(i) = popularity(i) · exp(uᵀv_g).

Within a group, items differ only in popularity. A draw therefore selects a group, then an item of it, at a cost that
does not depend on the number of items.
"""

from dataclasses import dataclass

import numpy as np

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank_paper.synthetic.numbers import BLOCK, num_blocks, stream
from songrank_paper.synthetic.shapes import Plan

ITEM_BITS = 26
_RANDOM_BITS = 28  # with 9 bits of a row and 26 of an item, these fill a sortable 64-bit number
_FEW_PART, _FEW_MOST = 0.03, 1 << 17  # up to here, drawing is faster than computing all weights
_CANDIDATES = 16
_RANK = 8
_GROUPS = 32
_BEND, _POWER = 0.04, 2.5  # popularity at quantile x is (x + bend)^−power: the top tenth of the items holds 85 %


@dataclass(frozen=True)
class Catalogue:
    """Items with popularities and groups, and a vector per group."""

    popularity: Array  # [items], sums to 1
    group: Array  # [items]
    vector: Array  # [groups, rank]
    order: Array  # [items]: sorted by group
    cumulative: Array  # [items + 1]: cumulative popularity in ``order``
    start: Array  # [groups + 1]: start of each group in ``order``

    @classmethod
    def draw(cls, items: int, strength: float, seed: int, purpose: str) -> "Catalogue":
        """A catalogue in which popularity is independent of group and index.

        ``strength`` is the standard deviation of uᵀv over queries and groups.
        """
        rng = stream(seed, purpose)
        groups = max(1, min(_GROUPS, items // 8))
        place = rng.permutation(items)
        popularity = ((place + 0.5) / items + _BEND) ** -_POWER
        popularity /= popularity.sum()
        group = place % groups
        order = np.argsort(group, kind="stable")
        cumulative = np.concatenate([[0.0], np.cumsum(popularity[order])])
        start = np.searchsorted(group[order], np.arange(groups + 1))
        vector = rng.standard_normal((groups, _RANK)) * (strength / _RANK**0.5)
        return cls(popularity, group, vector, order, cumulative, start)

    @property
    def _mass(self) -> Array:
        """[groups]: total popularity of each group."""
        return np.diff(self.cumulative[self.start])

    def affinity(self, taste: Array) -> Array:
        """[rows, groups]: uᵀv."""
        affinity: Array = taste.astype(np.float64) @ self.vector.T
        return affinity

    def chances(self, taste: Array, noise: float) -> Array:
        """[rows, groups]: probability of each group; a fraction ``noise`` of all draws follows popularity."""
        affinity = self.affinity(taste)
        weight = self._mass * np.exp(affinity - affinity.max(1, keepdims=True))
        chances: Array = (1 - noise) * weight / weight.sum(1, keepdims=True) + noise * self._mass
        return chances

    def weights(self, chances: Array) -> Array:
        """[…, items]: probability of each item, for ``chances`` […, groups]."""
        weights: Array = (chances / self._mass)[..., self.group] * self.popularity
        return weights

    def picks(self, chances: Array, row: Array, rng: np.random.Generator) -> Array:
        """An item for each entry of ``row``, with replacement."""
        rows, groups = chances.shape
        # One search in the cumulative probabilities of all rows: those of row r are between r and r + 1.
        ladder = (np.cumsum(chances, 1) + np.arange(rows)[:, None]).reshape(-1)
        found = np.searchsorted(ladder, rng.random(row.shape[0]) + row, side="right")
        group = np.clip(found - row * groups, 0, groups - 1)
        first, last = self.start[group], self.start[group + 1]
        bottom = self.cumulative[first]
        value = bottom + rng.random(row.shape[0]) * (self.cumulative[last] - bottom)
        place = np.clip(np.searchsorted(self.cumulative, value, side="right") - 1, first, last - 1)
        picked: Array = self.order[place]
        return picked


@dataclass(frozen=True)
class Takers:
    """Queries that draw items of a catalogue: their tastes and their numbers of items."""

    catalogue: Catalogue
    taste: Array  # [queries, rank]
    counts: Array  # [queries]: number of items per query
    sure_item: Array  # [items]: every item once, by its assigned query, so that each item is drawn
    sure_start: Array  # [queries + 1]: start of each query in sure_item
    noise: float
    seed: int
    purpose: str

    @classmethod
    def draw(cls, plan: Plan, purpose: str, items: int, strength: float, counts: Array) -> "Takers":
        """Queries of a new catalogue with ``items`` items; ``counts`` must sum to at least ``items``."""
        seed = plan.seed
        catalogue = Catalogue.draw(items, strength, seed, purpose)
        taste = stream(seed, "taste").standard_normal((plan.queries, _RANK), dtype=np.float32)
        taker = _sure_takers(catalogue, taste, counts, stream(seed, f"{purpose}, sure"))
        start = numpy_offsets(np.bincount(taker, minlength=counts.shape[0]))
        return cls(catalogue, taste, counts, np.argsort(taker, kind="stable"), start, plan.noise, seed, purpose)

    @property
    def num_blocks(self) -> int:
        """Blocks of queries."""
        return num_blocks(self.counts.shape[0])

    def rows(self, block: int) -> slice:
        """The queries of a block."""
        return slice(block * BLOCK, min((block + 1) * BLOCK, self.counts.shape[0]))

    def block(self, block: int) -> Array:
        """Items of the queries of a block, query by query, in random order per query."""
        rows = self.rows(block)
        counts, start = self.counts[rows], self.sure_start[rows.start : rows.stop + 1]
        sure_row = np.repeat(np.arange(start.shape[0] - 1), np.diff(start))
        sure_item = self.sure_item[start[0] : start[-1]]
        chances = self.catalogue.chances(self.taste[rows], self.noise)
        rng = stream(self.seed, f"{self.purpose}, taken", block)
        row, item = _by_draws(self.catalogue, chances, counts, sure_row, sure_item, rng)
        short = np.flatnonzero(np.bincount(row, minlength=counts.shape[0]) < counts)
        row, parts = np.concatenate([row, np.repeat(short, counts[short])]), [item]
        for number in short:
            weight, sure = self.catalogue.weights(chances[number]), sure_item[sure_row == number]
            parts.append(_by_keys(weight, int(counts[number]), sure, rng))
        # Row, random bits and item in one number: a single sort shuffles within all rows.
        shuffled = rng.integers(0, 1 << _RANDOM_BITS, row.shape[0])
        key: Array = (row << (_RANDOM_BITS + ITEM_BITS)) | (shuffled << ITEM_BITS) | np.concatenate(parts)
        key.sort()
        return key & ((1 << ITEM_BITS) - 1)

    def scores(self, query: Array) -> Array:
        """[len(query), items]: log of the weight of each item, the best possible score for these queries."""
        return np.log(self.catalogue.weights(self.catalogue.chances(self.taste[query], self.noise)))


def _by_draws(
    catalogue: Catalogue, chances: Array, counts: Array, sure_row: Array, sure_item: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draw with replacement, twice as often as needed, and keep new items, for rows with few items.

    Rows with many items, or with too few after the draw, are skipped.
    """
    few = counts <= min(_FEW_PART * catalogue.group.shape[0], _FEW_MOST)
    draws = np.repeat(np.arange(counts.shape[0]), np.where(few, 2 * counts + 16, 0))
    row = np.concatenate([sure_row[few[sure_row]], draws])
    item = np.concatenate([sure_item[few[sure_row]], catalogue.picks(chances, draws, rng)])
    by_row = np.argsort(row.astype(np.uint16), kind="stable")  # assigned items first
    row, item = row[by_row], item[by_row]
    first = np.sort(np.unique((row << ITEM_BITS) | item, return_index=True)[1])
    row, item = row[first], item[first]
    found = np.bincount(row, minlength=counts.shape[0])
    place = np.arange(row.shape[0]) - numpy_offsets(found)[row]
    kept = (place < counts[row]) & (found >= counts)[row]
    return row[kept], item[kept]


def _by_keys(weight: Array, count: int, sure: Array, rng: np.random.Generator) -> Array:
    """Draw without replacement: the ``count`` smallest of exponential random numbers with these rates."""
    key = rng.standard_exponential(weight.shape[0]) / weight
    key[sure] = -1.0
    return np.argpartition(key, count - 1)[:count]


def _sure_takers(catalogue: Catalogue, taste: Array, counts: Array, rng: np.random.Generator) -> Array:
    """[items]: the query to which each item is assigned.

    The pairs of all queries are distributed equally over the items, and each item is assigned to one of its pairs by
    affinity. So no query exceeds its number of items, and none has an item twice.
    """
    items, pairs, ends = catalogue.group.shape[0], int(counts.sum()), np.cumsum(counts)
    stride = max(1, int(pairs * 0.6180339887))
    while np.gcd(stride, pairs) != 1:
        stride += 1
    taker = np.empty(items, np.int64)
    for begin in range(0, items, 1 << 15):
        item = np.arange(begin, min(begin + (1 << 15), items))
        first, last = item * pairs // items, (item + 1) * pairs // items
        hand = first[:, None] + (rng.random((item.shape[0], _CANDIDATES)) * (last - first)[:, None]).astype(np.int64)
        query = np.searchsorted(ends, hand * stride % pairs, side="right")
        liking = np.einsum("icr,ir->ic", taste[query], catalogue.vector[catalogue.group[item]])
        chosen = np.argmax(liking + rng.gumbel(size=liking.shape), 1)
        taker[item] = query[np.arange(item.shape[0]), chosen]
    return taker
