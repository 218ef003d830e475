"""Lower bounds of the times of speed.py: bytes and operations, at the measured peak rates of this machine.

An operation is an addition or multiplication in float32. Data that can stay in a cache are counted once; sorting,
random numbers and kernel launches are not counted. On a CPU, a copy also reads the memory that it overwrites, so
in-place work can be faster than a bound by bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from timing import medians

BACKWARD = 3
"""A forward product is three in a training step, with one for the gradient of each factor."""


@dataclass(frozen=True)
class Work:
    """Bytes to move and operations to compute."""

    bytes: float = 0.0
    operations: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(self.bytes + other.bytes, self.operations + other.operations)

    def times(self, count: float) -> Work:
        """This work, repeated."""
        return Work(self.bytes * count, self.operations * count)


@dataclass(frozen=True)
class Ceilings:
    """Measured peak rates of this machine per second."""

    bytes: float
    operations: float

    @classmethod
    def measure(cls, device: torch.device) -> Ceilings:
        """Measure a large copy, which reads and writes, and a large product of float32 matrices."""
        gpu = device.type == "cuda"
        source = torch.ones(2**28 if gpu else 2**26, device=device)
        target = torch.empty_like(source)
        side = 8192 if gpu else 1536
        left, right = torch.ones(side, side, device=device), torch.ones(side, side, device=device)
        taken = medians({"copy": lambda: target.copy_(source), "product": lambda: left @ right}, 10)
        return cls(2 * 4 * source.numel() / taken["copy"] * 1e3, 2 * side**3 / taken["product"] * 1e3)

    def milliseconds(self, work: Work) -> float:
        """The larger of the times of bytes and operations."""
        return 1e3 * max(work.bytes / self.bytes, work.operations / self.operations)


def dense_adam(weights: int) -> Work:
    """Adam on every weight."""
    # Read w, m, v and the gradient, write w, m, v, four bytes each; about 12 operations per weight.
    return Work(7 * 4 * weights, 12 * weights)


def neumf_weights(queries: int, items: int, dim: int) -> int:
    """Weights of NeuMF with a hidden layer of the width of its vectors."""
    # Two vectors per query and item; the first layer and its bias; the head.
    return 2 * dim * (queries + items) + 2 * dim * dim + dim + 2 * dim


def neumf_pairs(pairs: float, items: float, dim: int) -> Work:
    """Forward scores of ``pairs`` pairs of ``items`` distinct items."""
    # Per pair: product 2·dim, sum of the halves dim, ReLU dim, head 2·dim. Per item: half of the first layer, 2·dim².
    # The two vectors of items are read once, 8·dim bytes.
    return Work(8 * dim * items, 6 * dim * pairs + 2 * dim * dim * items)


def neumf_step(queries: int, items: int, dim: int, rows: int, columns: int) -> Work:
    """A training step with dense Adam."""
    # Each distinct item of the slates is computed once. Vectors are read as part of Adam.
    forward = neumf_pairs(rows * columns, min(items, rows * columns), dim)
    # The slates are written and read once: item 8, label 4, mask 1 bytes per entry.
    return dense_adam(neumf_weights(queries, items, dim)) + Work(2 * 13 * rows * columns, BACKWARD * forward.operations)


def catalogue_evaluation(queries: int, items: int, dim: int, excluded: int) -> Work:
    """Scores of all items for all queries; ranks need no tensor of scores, but a comparison per score."""
    # Query vectors 8·dim bytes; item and score of an excluded pair, 8 bytes.
    scores = neumf_pairs(queries * items, items, dim)
    return scores + Work(8 * dim * queries + 8 * excluded, queries * items)


def context_aware_step(
    documents: int, length: int, features: int, weights: int, dim: int, blocks: int, feed_forward: int
) -> Work:
    """A training step of the Context-Aware Ranker."""
    # Per document and block: queries, keys, values, output 8·dim², attention 4·dim·length, network 4·dim·ff.
    block = 8 * dim * dim + 4 * dim * length + 4 * dim * feed_forward
    # Per document: input 2·features·dim and head 2·dim; features are read once, 4 bytes each.
    operations = documents * (2 * features * dim + blocks * block + 2 * dim)
    return dense_adam(weights) + Work(4 * features * documents, BACKWARD * operations)


def sequence_step(entries: float, items: int, weights: int, dim: int, blocks: int) -> Work:
    """A training step of the sequence model over all items, without padding."""
    # Per entry and block: queries, keys, values, output 8·dim², network of width 4·dim 16·dim²; attention to the few
    # entries of a history is left out. Scores 2·dim·items; they and their gradient are written and read once.
    scores = entries * items
    operations = entries * blocks * 24 * dim * dim + 2 * dim * scores
    # Each relevant item is compared with every item: a difference and a square, forward and for the gradient.
    return dense_adam(weights) + Work(16 * scores, BACKWARD * operations + 4 * scores)


def head_step(texts: int, width: int, labels: int, pairs: int, body: float, weights: int) -> Work:
    """A training step over all labels, with ``body`` forward operations per text below the head."""
    # Head: 2·width per score. Scores and their gradient are written and read once, 16 bytes per score.
    scores = texts * labels
    # Each relevant item is compared with every label: a difference and a square, forward and for the gradient.
    comparisons = 4 * pairs * labels
    operations = BACKWARD * (2 * width * scores + body * texts) + comparisons
    return dense_adam(weights) + Work(16 * scores, operations)


def label_mlp_body(features: int, width: int) -> float:
    """Forward operations of a dense hidden layer per text."""
    # One product, 2 · features · width.
    return 2.0 * features * width


def xml_cnn_body(words: int, dim: int, filters: int, windows: Sequence[int], pools: int, bottleneck: int) -> float:
    """Forward operations of XML-CNN below its head per text."""
    # A window of h words at each of words + h − 1 positions: 2·h·dim per filter.
    convolutions = sum(2 * h * dim * filters * (words + h - 1) for h in windows)
    # The bottleneck reads the pooled values.
    return convolutions + 2.0 * len(windows) * filters * pools * bottleneck


def sampling(rows: int, columns: int, taken: float) -> Work:
    """Sampling of slates for rows whose queries have ``taken`` seen items on average."""
    # Writes per entry: item 8, label 4, mask 1 bytes. Reads: a search among the seen items, 4 bytes × log2 of them.
    return Work(rows * columns * (13 + 4 * math.log2(taken + 1)))


def song_loss(rows: int, columns: int, pairs: int) -> Work:
    """SONG on given scores, forward and backward, with memory."""
    # Scores, labels and mask are read and the gradient is written, 13 bytes per entry; memory as in state_update.
    # Per comparison: a difference, a square, a weighted sum of 2, for the value and for the gradient.
    return Work(rows * columns * 13) + state_update(rows * pairs) + Work(0, 8 * rows * pairs * columns)


def state_update(pairs: int) -> Work:
    """Reading and writing ``pairs`` rows of memory."""
    # Index of a row 8 bytes, value read and written 4 + 4 bytes.
    return Work(16 * pairs)
