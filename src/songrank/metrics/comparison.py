"""Comparison of two methods: paired differences per query, with confidence intervals over queries and seeds.

Both methods have one value per query and seed on the same queries. The model has crossed random effects, difference =
mean + query + seed + residual, since many queries carry no information about the effect of another seed. The mean over
n queries and m seeds has the variance

    s²_queries / n  +  s²_seeds / m  −  s²_rest / (n·m)

with the variances of the queries' means, of the seeds' means and of the residual, which both contain (Searle, Casella
and McCulloch, Variance Components, 1992, chapter 4). Degrees of freedom are Satterthwaite's (1946), the quantile is
Student's. With three or more seeds the simulated coverage is 92 to 98 % at a level of 95 %; with two it can be 87 %.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from torch import Tensor

from songrank.core.checks import check_number, check_same_shape

HIGHEST_LEVEL = 0.999  # above it the coverage has not been simulated
_ROUNDING = 1e-12  # smaller differences are rounding from another summation order
_NEARLY_NORMAL = 1e7  # degrees of freedom above which Student's and the normal quantile agree to seven digits


@dataclass(frozen=True, eq=False)
class Fold:
    """One method on one data set: values [seeds, queries], NaN for skipped queries, and the seed of each row."""

    values: Tensor
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Summary:
    """A method's mean over seeds and queries, and the standard deviation over seeds of that mean."""

    mean: float
    sd: float
    """NaN with one seed."""


@dataclass(frozen=True)
class Difference:
    """First minus second method, with a confidence interval, and the number of queries on which each is better."""

    mean: float
    low: float
    high: float
    level: float
    standard_error: float
    degrees_of_freedom: float
    wins: int
    ties: int
    losses: int
    first_seeds: bool
    """Whether the interval covers seeds of the first method, which then has more than one."""
    second_seeds: bool
    paired_seeds: bool
    """Whether runs with the same seed were paired."""


def paired_difference(first: Tensor, second: Tensor, *, same_seeds: bool = False, level: float = 0.95) -> Difference:
    """Compare two methods on the same queries; see :mod:`songrank.metrics.comparison` for the interval.

    Args:
        first: [seeds, queries], NaN for skipped queries; [queries] for one seed.
        second: the same, with any number of seeds and NaN for the same queries.
        same_seeds: row i of both has the same seed, so rows are paired; otherwise seeds are independent.
        level: confidence level, at most 0.999.

    >>> import torch
    >>> first = torch.tensor([[0.5, 0.7, 0.9, torch.nan], [0.6, 0.6, 0.9, torch.nan]])
    >>> second = torch.tensor([[0.4, 0.7, 0.6, torch.nan]])
    >>> found = paired_difference(first, second)
    >>> f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]"
    '0.133 [-0.306, 0.572]'
    >>> found.wins, found.ties, found.losses, found.first_seeds, found.second_seeds
    (2, 0, 1, True, False)
    """
    check_number("level", level, 0.0, HIGHEST_LEVEL, low_open=True)
    first, second = _counted(first, second)
    if same_seeds:
        check_same_shape("first", first, "second with same_seeds", second)
    by_query = first.mean(0) - second.mean(0)
    mean = float(by_query.mean())
    variance, freedom = _variance(by_query, [first - second] if same_seeds else [first, second])
    return Difference(
        mean,
        *_interval(mean, variance, freedom, level),
        wins=int((by_query > _ROUNDING).sum()),
        ties=int((by_query.abs() <= _ROUNDING).sum()),
        losses=int((by_query < -_ROUNDING).sum()),
        first_seeds=first.shape[0] > 1,
        second_seeds=second.shape[0] > 1,
        paired_seeds=same_seeds,
    )


def compare_folds(first: Sequence[Fold], second: Sequence[Fold], *, level: float = 0.95) -> Difference:
    """Average the differences on several data sets with independent errors, paired by seed if the seeds are equal."""
    parts = [_compare(one, other, level) for one, other in zip(first, second, strict=True)]
    variances = [part.standard_error**2 for part in parts]
    spread = sum(v * v / part.degrees_of_freedom for v, part in zip(variances, parts, strict=True))
    mean, variance = _mean([part.mean for part in parts]), sum(variances) / len(parts) ** 2
    freedom = sum(variances) ** 2 / spread if spread else math.inf
    return Difference(
        mean,
        *_interval(mean, variance, freedom, level),
        wins=sum(part.wins for part in parts),
        ties=sum(part.ties for part in parts),
        losses=sum(part.losses for part in parts),
        first_seeds=all(part.first_seeds for part in parts),
        second_seeds=all(part.second_seeds for part in parts),
        paired_seeds=all(part.paired_seeds for part in parts),
    )


def summarise_folds(folds: Sequence[Fold]) -> Summary:
    """Mean of the data sets' means, for example over five folds, and its standard deviation over seeds.

    With the same seeds on all data sets it is the standard deviation of the seeds' means over all data sets; otherwise
    the data sets are treated as independent.
    """
    means = [dict(zip(fold.seeds, fold.values.double().nanmean(1).tolist(), strict=True)) for fold in folds]
    mean = _mean([_mean(list(by_seed.values())) for by_seed in means])
    if all(by_seed.keys() == means[0].keys() for by_seed in means):
        return Summary(mean, _sd([_mean([by_seed[seed] for by_seed in means]) for seed in means[0]]))
    return Summary(mean, math.sqrt(sum(_sd(list(by_seed.values())) ** 2 for by_seed in means)) / len(means))


def student_quantile(level: float, freedom: float) -> float:
    """Half-width of the central interval with probability ``level`` of Student's distribution; ``freedom`` is ≥ 1."""
    if math.isnan(freedom):
        return math.nan
    if freedom > _NEARLY_NORMAL:
        return NormalDist().inv_cdf((1 + level) / 2)
    low, high = 0.0, 1.0
    while _student_within(high, freedom) < level:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if _student_within(middle, freedom) < level else (low, middle)
    return high


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def _student_within(t: float, freedom: float) -> float:
    """P(|T| < t) by Gauss–Legendre: with t = √freedom·tan θ the density is a power of a cosine."""
    half = math.atan(t / math.sqrt(freedom)) / 2
    area = half * float(_WEIGHTS @ np.exp((freedom - 1) * np.log(np.cos(half * (1 + _NODES)))))
    return 2 / math.sqrt(math.pi) * math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) * area


def _compare(first: Fold, second: Fold, level: float) -> Difference:
    if set(first.seeds) != set(second.seeds):
        return paired_difference(first.values, second.values, level=level)
    order = [second.seeds.index(seed) for seed in first.seeds]
    return paired_difference(first.values, second.values[order], same_seeds=True, level=level)


def _counted(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Values of the queries that are not skipped, [seeds, queries] each."""
    first, second = ((x.unsqueeze(0) if x.dim() == 1 else x).double() for x in (first, second))
    if first.shape[1:] != second.shape[1:] or first.dim() != 2 or not (first.shape[0] and second.shape[0]):
        shapes = f"{list(first.shape)} and {list(second.shape)}"
        raise ValueError(f"first and second have shapes {shapes}; expected [seeds, queries] of the same queries")
    skipped = first[0].isnan()
    if not all(bool((values.isnan() == skipped).all()) for values in (first, second)):
        raise ValueError("first and second have NaN for different queries; expected the same queries in all seeds")
    return first[:, ~skipped], second[:, ~skipped]


def _variance(by_query: Tensor, samples: Sequence[Tensor]) -> tuple[float, float]:
    """Variance of the mean difference and its degrees of freedom; ``samples`` [seeds, queries] have separate seeds."""
    n = by_query.shape[0]
    if n < 2:
        return math.nan, math.nan
    queries = float(by_query.var()) / n
    seeds, rest, squares, least = 0.0, 0.0, queries**2 / (n - 1), n - 1
    for values in samples:
        m = values.shape[0]
        if m < 2:
            continue
        of_seeds = values.mean(1, keepdim=True)
        left = values - of_seeds - values.mean(0) + values.mean()
        part, remainder = float(of_seeds.var()) / m, float(left.square().sum()) / ((n - 1) * (m - 1) * n * m)
        seeds, rest, least = seeds + part, rest + remainder, min(least, m - 1)
        squares += part**2 / (m - 1) + remainder**2 / ((n - 1) * (m - 1))
    variance = max(queries + seeds - rest, queries, seeds)  # neither alone exceeds the true variance in expectation
    return variance, max(variance**2 / squares, least) if squares else math.inf


def _interval(mean: float, variance: float, freedom: float, level: float) -> tuple[float, float, float, float, float]:
    """Low, high, level, standard error, degrees of freedom."""
    error = math.sqrt(variance)
    margin = error * student_quantile(level, freedom)
    return mean - margin, mean + margin, level, error, freedom


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _sd(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
