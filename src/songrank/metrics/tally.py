"""One value a query for each metric, collected block by block, and what becomes of queries with nothing relevant."""

from collections.abc import Sequence

import torch
from torch import Tensor

from songrank.core.checks import check_choice
from songrank.core.gains import Gain
from songrank.functional.lists import REDUCTIONS
from songrank.metrics.names import Metric
from songrank.metrics.spans import Spans

_EMPTY_VALUE = {"skip": float("nan"), "zero": 0.0, "one": 1.0}


class Tally:
    """Values of Q queries, filled in any order.

    ``present`` [Q] says which queries have an item at all; the others are padding of a batch, and no policy gives them
    a value.
    """

    def __init__(self, metrics: Sequence[Metric], present: Tensor, gain: Gain) -> None:
        self.gain = gain
        self.present = present
        self.relevant = torch.zeros_like(present)
        self.values = {metric: torch.zeros_like(present, dtype=torch.float64) for metric in metrics}

    def add(self, query: Tensor, spans: Spans) -> None:
        """Take in the queries of one block, each for the first time."""
        self.relevant[query] = spans.mask.any(-1)
        for metric, values in self.values.items():
            values[query] = metric.measure(spans, self.gain)

    @property
    def num_queries(self) -> int:
        """Queries that have an item."""
        return int(self.present.sum())

    @property
    def num_empty(self) -> int:
        """Queries that have items, and no relevant one."""
        return int((self.present & ~self.relevant).sum())

    def per_query(self, empty: str) -> dict[str, Tensor]:
        """Values by name, [Q] each, NaN for what a mean leaves out."""
        filler = torch.full_like(self.present, _EMPTY_VALUE[empty], dtype=torch.float64)
        filler = torch.where(self.present, filler, torch.full_like(filler, torch.nan))
        return {str(metric): torch.where(self.relevant, value, filler) for metric, value in self.values.items()}


def reduce_queries(values: Tensor, reduction: str) -> Tensor:
    """Mean over the queries that have a value (NaN if none has), their sum (0 if none has), or all values."""
    check_choice("reduction", reduction, REDUCTIONS)
    if reduction == "none":
        return values
    return values.nanmean() if reduction == "mean" else values.nansum()
