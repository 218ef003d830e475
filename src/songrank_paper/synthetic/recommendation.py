"""Users and their ratings, drawn by taste and popularity, with labels that depend on the taste, and times."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank_paper.synthetic.numbers import long_tailed_counts, stream
from songrank_paper.synthetic.planted_catalogue import Takers
from songrank_paper.synthetic.shapes import Plan

_STRENGTH = 1.5  # of preferences; the planted order has about twice the NDCG of popularity
_SPREAD = 1.4  # of the users' activity, as in MovieLens: mean 144, median 68
_STARS = (-1.96, -1.31, -0.48, 0.49)  # about 6, 11, 26, 35 and 22 % of the labels are 1 to 5, as in MovieLens
_QUALITY_PART = 0.3  # of a label's variance, before noise
_START, _YEARS, _GAP = 1_100_000_000, 5 * 31_557_600, 3_600.0


class Pairs(NamedTuple):
    """The pairs of consecutive users, oldest first per user."""

    counts: Array
    item: Array
    label: Array
    time: Array


def draw_users(plan: Plan) -> Takers:
    """Users with tastes and activity, and the catalogue: the planted truth of a recommendation task."""
    rng = stream(plan.seed, "activity")
    counts = long_tailed_counts(plan.pairs, plan.queries, plan.fewest, plan.most, rng, _SPREAD)
    return Takers.draw(plan, "items", plan.items, _STRENGTH, counts)


def draw_pairs(plan: Plan) -> Iterator[Pairs]:
    """All pairs in blocks of users."""
    users = draw_users(plan)
    quality = stream(plan.seed, "quality").standard_normal(plan.items, dtype=np.float32)
    for block in range(users.num_blocks):
        counts, item = users.counts[users.rows(block)], users.block(block)
        row = np.repeat(np.arange(counts.shape[0]), counts)
        rng = stream(plan.seed, "labels and times", block)
        label = _labels(users, block, row, item, quality, rng)
        yield Pairs(counts, item.astype(np.int32), label, _times(counts, row, rng))


def _labels(users: Takers, block: int, row: Array, item: Array, quality: Array, rng: np.random.Generator) -> Array:
    """Ratings from 1 to 5: the user's preference relative to their other pairs, the quality of the item, and noise."""
    taste, catalogue = users.taste[users.rows(block)], users.catalogue
    liking, chances = catalogue.affinity(taste), catalogue.chances(taste, users.noise)
    mean = (chances * liking).sum(1, keepdims=True)
    deviation = np.sqrt((chances * (liking - mean) ** 2).sum(1, keepdims=True))
    liking = (liking - mean) / np.maximum(deviation, 1e-6)
    planted = (1 - _QUALITY_PART) ** 0.5 * liking[row, catalogue.group[item]] + _QUALITY_PART**0.5 * quality[item]
    chance = rng.standard_normal(row.shape[0], dtype=np.float32)
    level = (1 - users.noise) ** 0.5 * planted + users.noise**0.5 * chance
    labels: Array = (1 + np.searchsorted(_STARS, level)).astype(np.float32)
    return labels


def _times(counts: Array, row: Array, rng: np.random.Generator) -> Array:
    """Seconds since 1970, increasing over the pairs of a user."""
    first = _START + rng.integers(0, _YEARS, counts.shape[0])
    passed = np.cumsum(1 + (rng.standard_exponential(row.shape[0]) * _GAP).astype(np.int64))
    before = np.concatenate([[0], passed])[numpy_offsets(counts)[:-1]]
    times: Array = (first - before)[row] + passed
    return times
