"""Several metrics from one ranking, with their policies and the number of empty queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from songrank.core.gains import Gain
from songrank.metrics.blocks import read_lists
from songrank.metrics.names import check_policies, parse_metrics
from songrank.metrics.tally import Tally, reduce_queries

_EMPTY_WORDS = {"skip": "left out", "zero": "counted as 0", "one": "counted as 1"}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result of an evaluation; ``str()`` is a readable summary.

    >>> import torch
    >>> scores, labels = torch.tensor([[0.9, 0.5], [0.1, 0.2]]), torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    >>> print(evaluate_lists(scores, labels, metrics=["ndcg@10", "mrr"]))
    ndcg@10  0.630930
    mrr      0.500000
    2 queries, 1 without relevant items (left out); ties: pessimistic; gain: exp2
    """

    values: dict[str, float]
    """Mean over queries of each metric; NaN if no query counts."""
    per_query: dict[str, Tensor]
    """One float64 value per query, in the input's leading shape; NaN for queries that the mean skips."""
    num_queries: int
    """Queries with items, empty ones included."""
    num_empty: int
    """Queries with items and none of them relevant."""
    ties: str
    empty: str
    gain: Gain
    candidates: int | None = None
    """Sampled irrelevant items per query; None for whole lists."""

    def __str__(self) -> str:
        width = max(len(name) for name in self.values)
        lines = [f"{name:<{width}}  {value:.6f}" for name, value in self.values.items()]
        gain = getattr(self.gain, "__name__", str(self.gain)) if callable(self.gain) else self.gain
        sampled = f"among {self.candidates:,} sampled candidates; " if self.candidates is not None else ""
        lines.append(
            f"{self.num_queries:,} queries, {self.num_empty:,} without relevant items ({_EMPTY_WORDS[self.empty]}); "
            f"{sampled}ties: {self.ties}; gain: {gain}"
        )
        return "\n".join(lines)

    @classmethod
    def from_tally(
        cls, tally: Tally, *, shape: Sequence[int], ties: str, empty: str, candidates: int | None = None
    ) -> Evaluation:
        """Apply the policy for empty queries and take the means."""
        per_query = {name: value.reshape(tuple(shape)) for name, value in tally.per_query(empty).items()}
        values = {name: float(reduce_queries(value, "mean")) for name, value in per_query.items()}
        return cls(values, per_query, tally.num_queries, tally.num_empty, ties, empty, tally.gain, candidates)


def evaluate_lists(
    scores: Tensor,
    labels: Tensor,
    *,
    metrics: str | Sequence[str] = ("ndcg@10",),
    mask: Tensor | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    ties: str = "pessimistic",
    empty: str = "skip",
    gain: Gain = "exp2",
) -> Evaluation:
    """Several metrics of the same lists, ranked once; conventions as in :mod:`songrank.metrics.lists`.

    Args:
        scores: [..., L], or 1-D with ``lengths``.
        labels: as scores; an item is relevant if its label is above 0.
        metrics: names with or without a cutoff: dcg, ndcg, mrr, map, precision, recall, hit_rate; e.g. ``"ndcg@10"``.
        mask: [..., L], False for padding.
        lengths: [Q], where the lists follow one another in 1-D tensors.
        ties: ``"pessimistic"``, ``"average"`` or ``"stable"``.
        empty: queries without a relevant item: ``"skip"``, ``"zero"`` or ``"one"``.
        gain: ``"exp2"``, ``"linear"`` or a function of the labels.

    >>> import torch
    >>> scores, labels = torch.tensor([3.0, 2.0, 1.0, 5.0, 4.0]), torch.tensor([0.0, 1.0, 0.0, 2.0, 0.0])
    >>> result = evaluate_lists(scores, labels, lengths=[3, 2], metrics=["mrr", "precision@2"])
    >>> result.values
    {'mrr': 0.75, 'precision@2': 0.5}
    >>> result.per_query["mrr"]
    tensor([0.5000, 1.0000], dtype=torch.float64)

    """
    wanted = parse_metrics(metrics)
    check_policies(wanted, ties, empty, gain)
    lists = read_lists(scores, labels, mask, lengths)
    tally = lists.tally(wanted, ties, gain)
    return Evaluation.from_tally(tally, shape=lists.shape, ties=ties, empty=empty)
