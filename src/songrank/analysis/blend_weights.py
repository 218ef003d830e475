"""The weights of a blend, chosen on validation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.core.checks import check_int, check_number
from songrank.core.gains import Gain
from songrank.core.relevance import Relevance
from songrank.metrics import evaluate_lists
from songrank.metrics.catalogue import MEMORY, metric_values
from songrank.metrics.comparison import Difference, paired_difference
from songrank.models.blend import check_weights, standardise

QUERIES = 20_000
"""Number of queries on which weights are chosen, a fixed sample if there are more."""
STEP = 0.05
_ROUNDING = 1e-12  # smaller improvements are rounding
_PASSES = 20

Weights = tuple[float, ...]
Measure = Callable[[Sequence[Weights]], Tensor]  # values [C, n] of n queries for C weights


@dataclass(frozen=True)
class WeightChoice:
    """The weights of a blend, and the values of the metric on the queries on which they were chosen or measured."""

    metric: str
    weights: Weights
    alone: tuple[float, ...]
    """The value of each member alone."""
    value: float
    """The value of the blend."""
    num_queries: int
    difference: Difference
    """The blend minus its best member, paired by query, with standard error and confidence interval."""

    @property
    def best_member(self) -> int:
        """The member with the largest value, the first of several."""
        return self.alone.index(max(self.alone))


def choose_weights(
    members: Sequence[Callable[[Tensor], Tensor]],
    targets: Relevance,
    metric: str = "ndcg@10",
    *,
    weights: Sequence[float] | None = None,
    step: float = STEP,
    queries: int | None = QUERIES,
    seed: int = 0,
    memory: int | None = None,
    ties: str = "pessimistic",
    gain: Gain = "exp2",
) -> WeightChoice:
    """Choose the weights of :class:`songrank.models.Blend` that maximise a metric over the whole catalogue.

    All weights on a grid are compared for two members. For more, the search begins with one or two members and moves
    weight from one member to another while that improves the metric. Each pass computes the scores of a member
    once, standardises them, and ranks the items for all weights of the pass; scores are kept for one chunk of queries.
    Among equal values, fewer members are preferred.

    Args:
        members: score functions from ids of queries [b] to scores [b, num_items].
        targets: the relevant items of validation, with seen items excluded.
        metric: name of the metric.
        weights: measure these weights instead of choosing some.
        step: step of the grid.
        queries: maximum number of queries; a random sample if there are more. None for all of them.
        seed: random seed of the sample.
        memory: bytes per chunk for scores and temporaries.
        ties: ``"pessimistic"``, ``"average"`` or ``"stable"``.
        gain: ``"exp2"``, ``"linear"`` or a function of the labels.

    >>> scores = torch.tensor([[3.0, 2.0, 1.0, 0.0], [0.0, 2.0, 3.0, 1.0]])
    >>> other = torch.tensor([[0.0, 2.0, 1.0, 3.0], [3.0, 2.0, 0.0, 1.0]])
    >>> targets = Relevance.from_pairs(query=[0, 1], item=[1, 1], num_items=4)
    >>> found = choose_weights([lambda query: scores[query], lambda query: other[query]], targets, "mrr")
    >>> found.alone, found.value
    ((0.5, 0.5), 1.0)
    """
    chosen = _sample(targets.num_relevant, queries, seed) + targets.query_range[0]
    room = MEMORY.get(targets.device.type, MEMORY["cpu"]) if memory is None else check_int("memory", memory)

    def measure(candidates: Sequence[Weights]) -> Tensor:
        def scorings(query: Tensor) -> Iterator[Tensor]:
            scores = [standardise(member(query)) for member in members]
            return (_mix(scores, candidate) for candidate in candidates)

        bounded = max(1, room // (1 + len(members)))
        options = {"ties": ties, "gain": gain, "memory": bounded}
        return metric_values(scorings, targets, metric, queries=chosen, **options)  # type: ignore[arg-type]

    return _choice(measure, len(members), metric, weights, step)


def choose_list_weights(
    scores: Sequence[Tensor],
    labels: Tensor,
    lengths: Tensor,
    metric: str = "ndcg@10",
    *,
    weights: Sequence[float] | None = None,
    step: float = STEP,
    ties: str = "pessimistic",
    gain: Gain = "exp2",
) -> WeightChoice:
    """:func:`choose_weights` for queries with their own documents; lists without a relevant document do not count.

    Args:
        scores: the scores [documents] of each member, list after list.
        labels: the labels of the documents.
        lengths: the number of documents of each list.
        metric: name of the metric.
        weights: measure these weights instead of choosing some.
        step: step of the grid.
        ties: ``"pessimistic"``, ``"average"`` or ``"stable"``.
        gain: ``"exp2"``, ``"linear"`` or a function of the labels.
    """
    parts = [standardise_lists(some, lengths) for some in scores]

    def measure(candidates: Sequence[Weights]) -> Tensor:
        rows = []
        for candidate in candidates:
            options = {"metrics": metric, "ties": ties, "gain": gain, "lengths": lengths}
            (values,) = evaluate_lists(_mix(parts, candidate), labels, **options).per_query.values()  # type: ignore[arg-type]
            rows.append(values[~values.isnan()])
        return torch.stack(rows)

    return _choice(measure, len(scores), metric, weights, step)


def standardise_lists(scores: Tensor, lengths: Tensor) -> Tensor:
    """:func:`songrank.models.blend.standardise` of the scores [documents] of each list.

    >>> standardise_lists(torch.tensor([2.0, 4.0, 7.0]), torch.tensor([2, 1]))
    tensor([-1.,  1.,  0.])
    """
    parts = torch.split(scores, lengths.tolist())
    return torch.cat([standardise(part.unsqueeze(0)).squeeze(0) for part in parts])


def _choice(measure: Measure, members: int, metric: str, weights: Sequence[float] | None, step: float) -> WeightChoice:
    check_number("step", step, 0.0, 0.5, low_open=True)
    check_int("number of members", members)
    known = _Known(measure)
    units = [tuple(float(other == member) for other in range(members)) for member in range(members)]
    best = _search(known, members, round(1 / step)) if weights is None else check_weights(weights, members)
    values = known([*units, best])
    alone = tuple(values[:-1].mean(1).tolist())
    difference = paired_difference(values[-1], values[alone.index(max(alone))])
    return WeightChoice(metric, best, alone, float(values[-1].mean()), values.shape[1], difference)


class _Known:
    """A measure that measures all weights once."""

    def __init__(self, measure: Measure) -> None:
        self.measure = measure
        self.values: dict[Weights, Tensor] = {}

    def __call__(self, candidates: Sequence[Weights]) -> Tensor:
        new = [candidate for candidate in dict.fromkeys(candidates) if candidate not in self.values]
        if new:
            self.values |= zip(new, self.measure(new), strict=True)
        return torch.stack([self.values[candidate] for candidate in candidates])


def _search(measure: Measure, members: int, steps: int) -> Weights:
    """The best weights: of one or two members, then by moving weight between members."""
    best, value = _best(measure, _few_members(members, steps), steps)
    for _ in range(_PASSES if members > 2 else 0):
        moved, reached = _best(measure, _moves(best), steps)
        if reached <= value + _ROUNDING:
            break
        best, value = moved, reached
    return tuple(part / steps for part in best)


def _best(measure: Measure, tried: Sequence[tuple[int, ...]], steps: int) -> tuple[tuple[int, ...], float]:
    """The first of the best weights, in numbers of steps, and their value."""
    means = measure([tuple(part / steps for part in parts) for parts in tried]).mean(1)
    first = int((means >= means.max() - _ROUNDING).nonzero()[0])
    return tried[first], float(means[first])


def _few_members(members: int, steps: int) -> list[tuple[int, ...]]:
    """All weights of one member, then of two members.

    >>> _few_members(2, 4)
    [(4, 0), (0, 4), (1, 3), (2, 2), (3, 1)]
    """
    alone = [tuple(steps * (other == member) for other in range(members)) for member in range(members)]
    pairs = [(one, other) for one in range(members) for other in range(one + 1, members)]
    return alone + [
        tuple({one: part, other: steps - part}.get(member, 0) for member in range(members))
        for one, other in pairs
        for part in range(1, steps)
    ]


def _moves(weights: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All weights that follow from moving weight from one member to another, those with fewest members first."""
    found = []
    for giver, most in enumerate(weights):
        for taker in range(len(weights)):
            for part in range(1, most + 1) if taker != giver else ():
                changed = list(weights)
                changed[giver], changed[taker] = most - part, weights[taker] + part
                found.append(tuple(changed))
    return sorted(found, key=lambda parts: sum(part > 0 for part in parts))


def _mix(scores: Sequence[Tensor], weights: Weights) -> Tensor:
    total = torch.zeros_like(scores[0])
    for part, weight in zip(scores, weights, strict=True):
        if weight:
            total = torch.add(total, part, alpha=weight)
    return total


def _sample(num_relevant: Tensor, most: int | None, seed: int) -> Tensor:
    """Positions of the queries with a target, ascending, at most this number."""
    known = (num_relevant > 0).nonzero().squeeze(-1)
    if most is None or known.shape[0] <= check_int("queries", most):
        return known
    order = torch.randperm(known.shape[0], generator=torch.Generator().manual_seed(seed))
    return known[order[:most].sort().values.to(known.device)]
