"""One value per query and metric, collected block by block, with the policy for empty queries."""

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
    """Values of Q queries, filled in any order; queries that are not ``present`` [Q] are padding, without a value."""

    def __init__(self, metrics: Sequence[Metric], present: Tensor, gain: Gain) -> None:
        self.gain = gain
        self.present = present
        self.relevant = torch.zeros_like(present)
        self.values = {metric: torch.zeros_like(present, dtype=torch.float64) for metric in metrics}

    def add(self, query: Tensor, spans: Spans) -> None:
        """Add the queries of one block."""
        self.relevant[query] = spans.mask.any(-1)
        for metric, values in self.values.items():
            values[query] = metric.measure(spans, self.gain)

    @property
    def num_queries(self) -> int:
        """Queries with an item."""
        return int(self.present.sum())

    @property
    def num_empty(self) -> int:
        """Queries with items and none of them relevant."""
        return int((self.present & ~self.relevant).sum())

    def per_query(self, empty: str) -> dict[str, Tensor]:
        """Values by name, [Q] each, NaN for what a mean skips."""
        filler = torch.full_like(self.present, _EMPTY_VALUE[empty], dtype=torch.float64)
        filler = torch.where(self.present, filler, torch.full_like(filler, torch.nan))
        return {str(metric): torch.where(self.relevant, value, filler) for metric, value in self.values.items()}


def reduce_queries(values: Tensor, reduction: str) -> Tensor:
    """Mean (NaN if there is none) or sum of the values that are not NaN, or all values."""
    check_choice("reduction", reduction, REDUCTIONS)
    if reduction == "none":
        return values
    return values.nanmean() if reduction == "mean" else values.nansum()
