"""Texts as bags of words, and their labels; the topics of a text determine both."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from songrank.core.columns import Array
from songrank.core.csr import numpy_offsets
from songrank_paper.synthetic.numbers import long_tailed_counts, stream
from songrank_paper.synthetic.planted_catalogue import ITEM_BITS, Takers
from songrank_paper.synthetic.shapes import Plan

_STRENGTH = 3.0  # of topics; texts predict labels better than users predict their next item
_SPREAD = 0.5  # of the numbers of labels and words per text


class Texts(NamedTuple):
    """Labels and words of consecutive texts, in ascending order per text."""

    label_counts: Array
    label: Array
    word_counts: Array
    word: Array
    value: Array


def draw_labels(plan: Plan) -> Takers:
    """Texts with topics and labels: the planted truth of a multi-label classification task."""
    rng = stream(plan.seed, "labels a text")  # not shown
    counts = long_tailed_counts(plan.pairs, plan.queries, plan.fewest, plan.most, rng, _SPREAD)
    return Takers.draw(plan, "labels", plan.items, _STRENGTH, counts)


def draw_texts(plan: Plan) -> Iterator[Texts]:
    """All texts in blocks."""
    rng = stream(plan.seed, "words a text")  # not shown
    fewest, most = (plan.words + 3) // 4, plan.features // 2
    counts = long_tailed_counts(plan.words * plan.queries, plan.queries, fewest, most, rng, _SPREAD)
    labels, words = draw_labels(plan), Takers.draw(plan, "words", plan.features, _STRENGTH, counts)
    for block in range(labels.num_blocks):
        label_counts, word_counts = (kind.counts[kind.rows(block)] for kind in (labels, words))
        word = _ascending(words.block(block), word_counts)
        value = _values(word_counts, stream(plan.seed, "values", block))
        yield Texts(label_counts, _ascending(labels.block(block), label_counts), word_counts, word, value)


def _ascending(item: Array, counts: Array) -> Array:
    key = (np.repeat(np.arange(counts.shape[0]), counts) << ITEM_BITS) | item
    key.sort()
    return (key & ((1 << ITEM_BITS) - 1)).astype(np.int32)


def _values(counts: Array, rng: np.random.Generator) -> Array:
    """log(1 + count) of each word, normalised to length 1 per text."""
    value = np.log1p(rng.geometric(0.6, int(counts.sum())))
    length = np.sqrt(np.add.reduceat(value * value, numpy_offsets(counts)[:-1]))
    scaled: Array = (value / np.repeat(length, counts)).astype(np.float32)
    return scaled
