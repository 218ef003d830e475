"""Metric names, for example ``ndcg@10``, and policies for ties, empty lists and gains."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from songrank.core.checks import check_choice, check_int, fail
from songrank.core.gains import Gain
from songrank.functional.ranks import TIES
from songrank.metrics import spans as formulas
from songrank.metrics.spans import Spans

GAINS = ("exp2", "linear")
EMPTY = ("skip", "zero", "one")
# Each formula returns a value per query, [R] float64, 0 without relevant items.
FORMULAS: dict[str, Callable[[Spans, int | None, Gain], Tensor]] = {
    "dcg": formulas.dcgs,
    "ndcg": formulas.ndcgs,
    "mrr": formulas.reciprocal_ranks,
    "map": formulas.average_precisions,
    "precision": formulas.precisions,
    "recall": formulas.recalls,
    "hit_rate": formulas.hits,
}
# Sums over positions: their mean over all orders of a tied group follows from the positions of each item.
AVERAGEABLE = ("dcg", "ndcg", "precision", "recall")


@dataclass(frozen=True)
class Metric:
    """A metric and its cutoff; ``k=None`` for the whole list."""

    name: str
    k: int | None = None

    def __post_init__(self) -> None:
        check_choice("metric", self.name, tuple(FORMULAS))
        if self.k is not None:
            check_int("k", self.k)

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"


def parse_metrics(metrics: str | Sequence[str]) -> tuple[Metric, ...]:
    """Parse one or several names; duplicates are dropped."""
    names = [metrics] if isinstance(metrics, str) else list(metrics)
    if not names:
        fail("metrics", metrics, f"at least one of {', '.join(FORMULAS)}, optionally with a cutoff, e.g. '@10'")
    return tuple(dict.fromkeys(_parse(name) for name in names))


def _parse(name: str) -> Metric:
    found = re.fullmatch(r"([a-z_]+)(?:@([0-9]{1,9}))?", name) if isinstance(name, str) else None
    if found is None or found[1] not in FORMULAS or (found[2] is not None and int(found[2]) < 1):
        fail("metric", name, f"one of {', '.join(FORMULAS)}, optionally with a cutoff of at least 1, e.g. '@10'")
    return Metric(found[1], None if found[2] is None else int(found[2]))


def check_policies(metrics: Sequence[Metric], ties: str, empty: str, gain: Gain) -> None:
    """Raise unless these metrics can be computed under these policies."""
    check_choice("ties", ties, TIES)
    check_choice("empty", empty, EMPTY)
    if not callable(gain):
        check_choice("gain", gain, GAINS)
    for metric in metrics:
        if ties == "average" and metric.name not in AVERAGEABLE:
            fail("ties", ties, f"'pessimistic' or 'stable' for {metric}; only {', '.join(AVERAGEABLE)} can be averaged")
