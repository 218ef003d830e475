"""Metric values per query, collected block by block, and the resulting evaluation."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.core.checks import check_choice
from songrank.core.gains import Gain
from songrank.core.processes import Processes
from songrank.core.text import counted, notebook_table
from songrank.functional.lists import REDUCTIONS
from songrank.metrics.names import FORMULAS, Metric
from songrank.metrics.spans import Spans

_EMPTY = {"skip": (float("nan"), "left out"), "zero": (0.0, "counted as 0"), "one": (1.0, "counted as 1")}


class Tally:
    """Values of Q queries, filled in any order; queries that are not ``present`` [Q] are padding without a value."""

    def __init__(self, metrics: Sequence[Metric], present: Tensor, gain: Gain) -> None:
        self.gain = gain
        self.present = present
        self.relevant = torch.zeros_like(present)
        self.values = {metric: torch.zeros_like(present, dtype=torch.float64) for metric in metrics}

    def add(self, query: Tensor, spans: Spans) -> None:
        """Add the queries of one block."""
        self.relevant[query] = spans.mask.any(-1)
        for metric, values in self.values.items():
            values[query] = FORMULAS[metric.name](spans, metric.k, self.gain)

    def add_up(self, processes: Processes) -> None:
        """Collect the queries that each process has added; each query is added by one process only."""
        if processes.world > 1:
            parts = [self.relevant.double(), *self.values.values()]
            relevant, *values = processes.add(torch.stack(parts).to(processes.device)).to(self.present.device)
            self.relevant, self.values = relevant > 0, dict(zip(self.values, values, strict=True))

    @property
    def num_queries(self) -> int:
        """Queries with an item."""
        return int(self.present.sum())

    @property
    def num_empty(self) -> int:
        """Queries with items, but without relevant items."""
        return int((self.present & ~self.relevant).sum())

    def per_query(self, empty: str) -> dict[str, Tensor]:
        """Values by name, [Q] each, NaN for queries that the mean skips."""
        filler = torch.full_like(self.present, _EMPTY[empty][0], dtype=torch.float64)
        filler = torch.where(self.present, filler, torch.full_like(filler, torch.nan))
        return {str(metric): torch.where(self.relevant, value, filler) for metric, value in self.values.items()}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result of an evaluation; ``str()`` gives a human-readable summary.

    >>> from songrank.metrics import evaluate_lists
    >>> scores, labels = torch.tensor([[0.9, 0.5], [0.1, 0.2]]), torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    >>> print(evaluate_lists(scores, labels, metrics=["ndcg@10", "mrr"]))
    ndcg@10  0.630930
    mrr      0.500000
    2 queries, 1 without relevant items (left out); ties: pessimistic; gain: exp2
    """

    values: dict[str, float]
    """Mean over queries of each metric; NaN if all are skipped."""
    per_query: dict[str, Tensor]
    """One float64 value per query, in the input's leading shape; NaN for queries that the mean skips."""
    num_queries: int
    """Queries with items, empty ones included."""
    num_empty: int
    """Queries with items, but without relevant items."""
    ties: str
    empty: str
    gain: Gain
    candidates: int | None = None
    """Sampled irrelevant items per query; None for whole lists."""

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.6f}" for name, value in self.values.items())
        return f"Evaluation({values}; {counted(self.num_queries, 'queries')}, {self.num_empty:,} empty)"

    def _repr_html_(self) -> str:
        rows = [(name, f"{value:.6f}") for name, value in self.values.items()]
        return notebook_table(rows, "Evaluation", self._policies("queries"))

    def describe(self, queries: str = "queries") -> str:
        """One line per metric, then the policies; ``queries`` is what queries are called, for example users."""
        width = max(len(name) for name in self.values)
        lines = [f"{name:<{width}}  {value:.6f}" for name, value in self.values.items()]
        return "\n".join([*lines, self._policies(queries)])

    def _policies(self, queries: str) -> str:
        gain = getattr(self.gain, "__name__", str(self.gain)) if callable(self.gain) else self.gain
        sampled = f"among {self.candidates:,} sampled candidates; " if self.candidates is not None else ""
        return (
            f"{counted(self.num_queries, queries)}, {self.num_empty:,} without relevant items "
            f"({_EMPTY[self.empty][1]}); {sampled}ties: {self.ties}; gain: {gain}"
        )

    @classmethod
    def from_tally(
        cls, tally: Tally, *, shape: Sequence[int], ties: str, empty: str, candidates: int | None = None
    ) -> "Evaluation":
        """Apply the policy for empty queries and take the means."""
        per_query = {name: value.reshape(tuple(shape)) for name, value in tally.per_query(empty).items()}
        values = {name: float(reduce_queries(value, "mean")) for name, value in per_query.items()}
        return cls(values, per_query, tally.num_queries, tally.num_empty, ties, empty, tally.gain, candidates)


def gather_evaluation(own: Evaluation | None, processes: Processes) -> Evaluation:
    """The evaluation of the queries of all processes, each of which has evaluated a range of them.

    The ranges follow one another in the order of the processes, as in training, where each process has the data of its
    queries only. Values per query are concatenated, and averaged once: the mean of one process, not a mean of means.
    To share an evaluation whose data all processes have, pass ``processes`` to :func:`evaluate_catalogue`,
    :func:`evaluate_lists` or :func:`evaluate_sampled` instead.

    Args:
        own: the evaluation of this process, with one value per query; None for a process without queries.
        processes: the processes.

    >>> from songrank.core.processes import processes
    >>> from songrank.metrics import evaluate_lists
    >>> own = evaluate_lists(torch.tensor([[0.9, 0.5]]), torch.tensor([[0.0, 1.0]]), metrics="mrr")
    >>> gather_evaluation(own, processes()).values
    {'mrr': 0.5}
    """
    if processes.world == 1:
        assert own is not None
        return own
    told = ""
    if own is not None:
        policies = {"ties": own.ties, "empty": own.empty, "gain": str(own.gain), "candidates": own.candidates}
        told = json.dumps([list(own.values), policies])
    names, common = next(json.loads(text) for text in processes.texts(told) if text)
    per_query, nothing = {}, torch.zeros(0, dtype=torch.float64)
    for name in names:
        per_query[name] = processes.gather(nothing if own is None else own.per_query[name])
    counts = torch.tensor([0, 0] if own is None else [own.num_queries, own.num_empty], device=processes.device)
    num_queries, num_empty = processes.add(counts).tolist()
    values = {name: float(reduce_queries(value, "mean")) for name, value in per_query.items()}
    if own is not None:
        common["gain"] = own.gain  # may be a function
    return Evaluation(values, per_query, num_queries, num_empty, **common)


def reduce_queries(values: Tensor, reduction: str) -> Tensor:
    """Mean (NaN if there is no value) or sum of the values that are not NaN, or all values."""
    check_choice("reduction", reduction, REDUCTIONS)
    if reduction == "none":
        return values
    return values.nanmean() if reduction == "mean" else values.nansum()
