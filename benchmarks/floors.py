"""Floors: bytes and operations that a row of speed.py cannot do without, at the ceilings measured on this machine.

An operation is one addition or multiplication in float32. Counts are lower bounds: what could stay in a cache is
counted once, and sorting, random numbers and launches are not counted. On a CPU a copy also reads what it overwrites,
so work in place can take less than a floor by bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from timing import medians

BACKWARD = 3
"""A product forward is three in a training step: one more for the gradient of each of its two factors."""


@dataclass(frozen=True)
class Work:
    """What must be moved and computed."""

    bytes: float = 0.0
    operations: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(self.bytes + other.bytes, self.operations + other.operations)

    def times(self, count: float) -> Work:
        """So many times this."""
        return Work(self.bytes * count, self.operations * count)


@dataclass(frozen=True)
class Ceilings:
    """The most that this machine was seen to do in a second."""

    bytes: float
    operations: float

    @classmethod
    def measure(cls, device: torch.device) -> Ceilings:
        """By a large copy, which reads and writes, and a large product of float32 matrices, as torch is set now."""
        gpu = device.type == "cuda"
        source = torch.ones(2**28 if gpu else 2**26, device=device)
        target = torch.empty_like(source)
        side = 8192 if gpu else 1536
        left, right = torch.ones(side, side, device=device), torch.ones(side, side, device=device)
        taken = medians({"copy": lambda: target.copy_(source), "product": lambda: left @ right}, 10)
        return cls(2 * 4 * source.numel() / taken["copy"] * 1e3, 2 * side**3 / taken["product"] * 1e3)

    def milliseconds(self, work: Work) -> float:
        """The larger of what the bytes and what the operations take."""
        return 1e3 * max(work.bytes / self.bytes, work.operations / self.operations)


def dense_adam(weights: int) -> Work:
    """Adam on every weight."""
    # Read w, m, v and the gradient, write w, m, v, four bytes each; about 12 operations a weight.
    return Work(7 * 4 * weights, 12 * weights)


def neumf_weights(queries: int, items: int, dim: int) -> int:
    """Weights of NeuMF with one hidden layer as wide as its vectors."""
    # Two vectors for each query and item; the first layer and its bias; the head.
    return 2 * dim * (queries + items) + 2 * dim * dim + dim + 2 * dim


def neumf_pairs(pairs: float, items: float, dim: int) -> Work:
    """Scores of so many pairs of so many different items, forward."""
    # A pair: product 2·dim, sum of the halves dim, ReLU dim, head 2·dim. An item: its half of the first layer, 2·dim².
    # The items' two vectors are read once, 8·dim bytes.
    return Work(8 * dim * items, 6 * dim * pairs + 2 * dim * dim * items)


def neumf_step(queries: int, items: int, dim: int, rows: int, columns: int) -> Work:
    """A training step with dense Adam."""
    # Each different item of the slates is computed once: no more than there are. Vectors are read as part of Adam.
    forward = neumf_pairs(rows * columns, min(items, rows * columns), dim)
    # The slates are written and read once: item 8, label 4, mask 1 bytes a cell.
    return dense_adam(neumf_weights(queries, items, dim)) + Work(2 * 13 * rows * columns, BACKWARD * forward.operations)


def catalogue_evaluation(queries: int, items: int, dim: int, excluded: int) -> Work:
    """Scores of all items for all queries; ranks need no tensor of scores, but one comparison a score."""
    # Query vectors 8·dim bytes; an excluded pair's item and score, 8 bytes.
    scores = neumf_pairs(queries * items, items, dim)
    return scores + Work(8 * dim * queries + 8 * excluded, queries * items)


def context_aware_step(
    documents: int, length: int, features: int, weights: int, dim: int, blocks: int, feed_forward: int
) -> Work:
    """A training step of the Context-Aware Ranker."""
    # A document in a block: queries, keys, values, output 4 · 2·dim², attention 2 · 2·dim·length, network 2 · 2·dim·ff.
    block = 8 * dim * dim + 4 * dim * length + 4 * dim * feed_forward
    # A document: input 2·features·dim and head 2·dim; its features are read once, 4 bytes each.
    operations = documents * (2 * features * dim + blocks * block + 2 * dim)
    return dense_adam(weights) + Work(4 * features * documents, BACKWARD * operations)


def head_step(texts: int, width: int, labels: int, pairs: int, body: float, weights: int) -> Work:
    """A training step over all labels, with ``body`` operations a text, forward, below the head."""
    # Head: 2·width a score. Scores and their gradient are written and read once, 16 bytes a score.
    scores = texts * labels
    # Each relevant item meets every label: a difference and a square, forward and for the gradient.
    comparisons = 4 * pairs * labels
    operations = BACKWARD * (2 * width * scores + body * texts) + comparisons
    return dense_adam(weights) + Work(16 * scores, operations)


def label_mlp_body(features: int, width: int) -> float:
    """Operations of one dense hidden layer, forward, a text."""
    # One product, 2 · features · width.
    return 2.0 * features * width


def xml_cnn_body(words: int, dim: int, filters: int, windows: Sequence[int], pools: int, bottleneck: int) -> float:
    """Operations of XML-CNN below its head, forward, a text."""
    # A window of h words at each of words + h − 1 places: 2·h·dim a filter.
    convolutions = sum(2 * h * dim * filters * (words + h - 1) for h in windows)
    # The bottleneck reads what is left after pooling.
    return convolutions + 2.0 * len(windows) * filters * pools * bottleneck


def sampling(rows: int, columns: int, taken: float) -> Work:
    """Drawing slates for rows whose queries have so many taken items on average."""
    # Written a cell: item 8, label 4, mask 1 bytes. Read: one search among the taken items, 4 bytes each of their log2.
    return Work(rows * columns * (13 + 4 * math.log2(taken + 1)))


def song_loss(rows: int, columns: int, pairs: int) -> Work:
    """SONG on given scores, forward and backward, with its memory."""
    # Scores, labels and mask are read and the gradient is written, 13 bytes a cell; memory as in state_update.
    # A comparison: a difference, a square, a weighted sum of 2, for the value and again for the gradient.
    return Work(rows * columns * 13) + state_update(rows * pairs) + Work(0, 8 * rows * pairs * columns)


def state_update(pairs: int) -> Work:
    """Reading and writing so many rows of memory."""
    # A row's place 8, its value read and written 4 + 4 bytes.
    return Work(16 * pairs)
