"""A catalogue with planted structure: popular and rare items, in groups that queries like or do not.

A query's taste is a small vector u, a group of items has a vector v, and the query picks item i of group g with

    weight(i) = popularity(i) · exp(uᵀv_g).

Within a group items differ by popularity alone. So a pick is a group, then an item of it, and costs the same however
many items there are.
"""

from dataclasses import dataclass

import numpy as np

from songrank.core.columns import Array
from songrank.data.synthetic.numbers import stream

RANK = 8
_GROUPS = 32
_BEND, _POWER = 0.04, 2.5  # popularity at quantile x is (x + bend)^−power: the top tenth of the items holds 85 %


def draw_tastes(queries: int, seed: int) -> Array:
    """[queries, rank]: a vector u for each query."""
    return stream(seed, "taste").standard_normal((queries, RANK), dtype=np.float32)


@dataclass(frozen=True)
class Catalogue:
    """Items with their popularity and their group, and a vector for each group."""

    popularity: Array  # [items], sums to 1
    group: Array  # [items]
    vector: Array  # [groups, rank]
    order: Array  # [items]: by group
    cumulative: Array  # [items + 1]: popularity of the items before each place of ``order``
    start: Array  # [groups + 1]: where each group begins in ``order``

    @classmethod
    def draw(cls, items: int, strength: float, seed: int, purpose: str) -> "Catalogue":
        """A catalogue; each group has popular and rare items alike, and an item's number says nothing.

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
        vector = rng.standard_normal((groups, RANK)) * (strength / RANK**0.5)
        return cls(popularity, group, vector, order, cumulative, start)

    @property
    def _mass(self) -> Array:
        """[groups]: popularity of each group's items together."""
        return np.diff(self.cumulative[self.start])

    def affinity(self, taste: Array) -> Array:
        """[rows, groups]: uᵀv."""
        affinity: Array = taste.astype(np.float64) @ self.vector.T
        return affinity

    def chances(self, taste: Array, noise: float) -> Array:
        """[rows, groups]: how likely a pick is of each group; a part ``noise`` of all picks goes by popularity."""
        affinity = self.affinity(taste)
        weight = self._mass * np.exp(affinity - affinity.max(1, keepdims=True))
        chances: Array = (1 - noise) * weight / weight.sum(1, keepdims=True) + noise * self._mass
        return chances

    def weights(self, chances: Array) -> Array:
        """[…, items]: how likely a pick is of each item, for ``chances`` […, groups]."""
        weights: Array = (chances / self._mass)[..., self.group] * self.popularity
        return weights

    def picks(self, chances: Array, row: Array, rng: np.random.Generator) -> Array:
        """An item for each entry of ``row``, with replacement."""
        rows, groups = chances.shape
        # One search in the cumulative chances of all rows at once: those of row r lie between r and r + 1.
        ladder = (np.cumsum(chances, 1) + np.arange(rows)[:, None]).reshape(-1)
        found = np.searchsorted(ladder, rng.random(row.shape[0]) + row, side="right")
        group = np.clip(found - row * groups, 0, groups - 1)
        first, last = self.start[group], self.start[group + 1]
        bottom = self.cumulative[first]
        value = bottom + rng.random(row.shape[0]) * (self.cumulative[last] - bottom)
        place = np.clip(np.searchsorted(self.cumulative, value, side="right") - 1, first, last - 1)
        picked: Array = self.order[place]
        return picked
