import math

import numpy as np
import pytest
import torch
from scipy import stats

from songrank.metrics.comparison import Fold, compare_folds, paired_difference, student_quantile, summarise_folds


def crossed(generator, *, seeds, queries, effect=0.0, query_sd=1.0, seed_sd=0.0, rest_sd=0.5):
    """Differences that vary by query, by seed, and by both."""
    by_query = query_sd * generator.normal(size=queries)
    by_seed = seed_sd * generator.normal(size=(seeds, 1))
    return effect + by_query + by_seed + rest_sd * generator.normal(size=(seeds, queries))


def tensor(values):
    return torch.as_tensor(np.asarray(values, dtype=np.float64))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("freedom", [1, 1.3, 2, 4.7, 30, 1e3, 1e5, 5e6, 2e7, math.inf])
def test_the_quantile_is_scipys(level, freedom):
    assert student_quantile(level, freedom) == pytest.approx(stats.t.ppf((1 + level) / 2, freedom), rel=1e-6)


def test_with_one_seed_it_is_the_paired_t_test():
    generator = np.random.default_rng(0)
    first, second = generator.random(40), generator.random(40)
    found = paired_difference(tensor(first), tensor(second), level=0.9)
    theirs = stats.ttest_rel(first, second).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))
    assert found.degrees_of_freedom == 39
    assert not found.first_seeds
    assert not found.second_seeds


def test_with_seeds_that_change_nothing_it_is_the_paired_t_test():
    generator = np.random.default_rng(0)
    first, second = generator.random(40), generator.random(40)
    found = paired_difference(tensor([first] * 3), tensor([second] * 3), same_seeds=True)
    theirs = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high))


def loops(values):
    """Sums of squares of a two-way table by loops: the parts that queries, seeds and neither explain."""
    m, n = len(values), len(values[0])
    grand = sum(sum(row) for row in values) / (m * n)
    seed_means = [sum(row) / n for row in values]
    query_means = [sum(row[q] for row in values) / m for q in range(n)]
    queries = sum((mean - grand) ** 2 for mean in query_means) / (n - 1) / n
    seeds = sum((mean - grand) ** 2 for mean in seed_means) / (m - 1) / m
    rest = 0.0
    for s in range(m):
        for q in range(n):
            rest += (values[s][q] - seed_means[s] - query_means[q] + grand) ** 2
    return grand, queries, seeds, rest / ((m - 1) * (n - 1)) / (m * n)


def test_paired_seeds_match_loops():
    m, n = 4, 25
    generator = np.random.default_rng(1)
    second = generator.random((m, n))
    first = second + crossed(generator, seeds=m, queries=n, effect=0.3, seed_sd=0.4)
    mean, queries, seeds, rest = loops((first - second).tolist())
    variance = queries + seeds - rest
    assert variance > max(queries, seeds)  # so that no bound hides the formula
    freedom = variance**2 / (queries**2 / (n - 1) + seeds**2 / (m - 1) + rest**2 / ((n - 1) * (m - 1)))
    found = paired_difference(tensor(first), tensor(second), same_seeds=True)
    assert found.mean == pytest.approx(mean)
    assert found.degrees_of_freedom == pytest.approx(freedom)
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, freedom, mean, math.sqrt(variance)))


def test_seeds_that_agree_by_chance_do_not_make_it_surer_than_the_queries_do():
    generator = np.random.default_rng(11)
    values = crossed(generator, seeds=3, queries=30, rest_sd=2.0)
    values -= values.mean(1, keepdims=True)  # then the rest, taken off alone, would be more than the seeds add
    _, queries, seeds, rest = loops(values.tolist())
    assert queries + seeds - rest < 0.8 * queries
    found = paired_difference(tensor(values), tensor(np.zeros_like(values)), same_seeds=True)
    assert found.standard_error == pytest.approx(math.sqrt(queries))
    assert found.degrees_of_freedom < 29


def test_independent_seeds_match_loops():
    n = 25
    generator = np.random.default_rng(2)
    first = crossed(generator, seeds=3, queries=n, seed_sd=0.5)
    second = crossed(generator, seeds=5, queries=n, seed_sd=0.5)
    (_, _, seeds, rest), (_, _, other_seeds, other_rest) = loops(first.tolist()), loops(second.tolist())
    by_query = first.mean(0) - second.mean(0)
    queries = by_query.var(ddof=1) / n
    variance = queries + seeds + other_seeds - rest - other_rest
    assert variance > max(queries, seeds + other_seeds)
    spread = queries**2 / (n - 1) + seeds**2 / 2 + other_seeds**2 / 4 + rest**2 / (2 * 24) + other_rest**2 / (4 * 24)
    found = paired_difference(tensor(first), tensor(second))
    assert found.standard_error == pytest.approx(math.sqrt(variance))
    assert found.degrees_of_freedom == pytest.approx(variance**2 / spread)
    assert found.mean == pytest.approx(by_query.mean())


def coverage(effect, draw, trials=800):
    """Share of intervals that hold the effect; it has itself a standard error of 0.8 %."""
    intervals = [draw() for _ in range(trials)]
    return sum(found.low <= effect <= found.high for found in intervals) / trials


@pytest.mark.parametrize(("seed_sd", "rest_sd"), [(0.0, 0.5), (0.2, 2.0), (1.0, 0.5)])
def test_paired_intervals_hold_what_they_promise(seed_sd, rest_sd):
    generator = np.random.default_rng(3)

    def draw():
        values = crossed(generator, seeds=5, queries=100, effect=0.2, seed_sd=seed_sd, rest_sd=rest_sd)
        return paired_difference(tensor(values), tensor(np.zeros_like(values)), same_seeds=True)

    assert 0.925 <= coverage(effect=0.2, draw=draw) <= 0.98


def test_intervals_with_independent_seeds_hold_what_they_promise():
    generator = np.random.default_rng(4)

    def draw():
        first = crossed(generator, seeds=4, queries=80, effect=0.2, seed_sd=0.15)
        return paired_difference(tensor(first), tensor(crossed(generator, seeds=6, queries=80, seed_sd=0.1)))

    assert 0.925 <= coverage(effect=0.2, draw=draw) <= 0.98


def test_intervals_of_folds_hold_what_they_promise():
    generator = np.random.default_rng(5)

    def draw():
        values = [crossed(generator, seeds=3, queries=n, effect=0.2, seed_sd=0.1) for n in (20, 50, 80)]
        folds = [Fold(tensor(one), (0, 1, 2)) for one in values]
        return compare_folds(folds, [Fold(torch.zeros_like(fold.values), fold.seeds) for fold in folds])

    assert 0.925 <= coverage(effect=0.2, draw=draw) <= 0.98


def test_where_seeds_decide_many_queries_do_not_make_it_sure():
    generator = np.random.default_rng(6)
    values = tensor(crossed(generator, seeds=4, queries=5000, seed_sd=1.0, query_sd=0.1, rest_sd=0.1))
    found = paired_difference(values, torch.zeros_like(values), same_seeds=True)
    naive = paired_difference(values.mean(0), torch.zeros(5000))
    assert found.degrees_of_freedom == pytest.approx(3, abs=0.1)
    assert found.high - found.low > 100 * (naive.high - naive.low)
    seeds_alone = stats.ttest_1samp(values.mean(1).numpy(), 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((seeds_alone.low, seeds_alone.high), rel=0.01)


def test_pairing_by_seed_takes_out_what_seeds_do_to_both():
    generator = np.random.default_rng(7)
    luck = generator.normal(size=(4, 1))
    first, second = (tensor(luck + 0.1 * generator.normal(size=(4, 50))) for _ in range(2))
    paired = paired_difference(first, second, same_seeds=True)
    assert paired.standard_error < 0.1 * paired_difference(first, second).standard_error


def test_folds_pair_rows_by_seed_whatever_their_order():
    generator = np.random.default_rng(8)
    first, second = tensor(generator.random((3, 20))), tensor(generator.random((3, 20)))
    expected = paired_difference(first, second, same_seeds=True)
    assert compare_folds([Fold(first, (5, 6, 7))], [Fold(second[[2, 0, 1]], (7, 5, 6))]) == expected
    others = compare_folds([Fold(first, (5, 6, 7))], [Fold(second, (5, 6, 8))])
    assert others.low == pytest.approx(paired_difference(first, second).low)
    assert not others.paired_seeds


def test_wins_ties_and_losses_ignore_rounding_and_queries_that_do_not_count():
    first = torch.tensor([[0.1 + 0.2, 0.5, 0.1, torch.nan, 0.9]], dtype=torch.float64)
    second = torch.tensor([[0.3, 0.4, 0.2, torch.nan, 0.8]], dtype=torch.float64)
    found = paired_difference(first, second)
    assert (found.wins, found.ties, found.losses) == (2, 1, 1)
    assert found.mean == pytest.approx(0.1 / 4)


def test_methods_that_are_the_same_differ_by_nothing():
    values = torch.rand(3, 10)
    found = paired_difference(values, values, same_seeds=True)
    assert (found.mean, found.low, found.high, found.ties) == (0, 0, 0, 10)


@pytest.mark.parametrize("queries", [[0.5], [0.5, math.nan], [math.nan]])
def test_fewer_than_two_queries_have_no_interval(queries):
    found = paired_difference(tensor([queries] * 3), tensor([queries] * 3))
    assert math.isnan(found.low)
    assert math.isnan(found.high)


def test_values_that_do_not_belong_together_are_refused():
    one = torch.rand(2, 4)
    with pytest.raises(ValueError, match=r"shapes \[2, 4\] and \[2, 3\]; expected \[seeds, queries\]"):
        paired_difference(one, one[:, :3])
    with pytest.raises(ValueError, match="NaN for different queries"):
        paired_difference(one, one.index_fill(1, torch.tensor(2), torch.nan))
    with pytest.raises(ValueError, match=r"second with same_seeds"):
        paired_difference(one, one[:1], same_seeds=True)
    with pytest.raises(ValueError, match="level is 1.0; expected"):
        paired_difference(one, one, level=1.0)


def test_a_summary_is_the_mean_of_fold_means_and_its_deviation_over_seeds():
    generator = np.random.default_rng(9)
    small, large = generator.random((3, 5)), generator.random((3, 50))
    found = summarise_folds([Fold(tensor(small), (0, 1, 2)), Fold(tensor(large[::-1].copy()), (2, 1, 0))])
    by_seed = [(small[seed].mean() + large[seed].mean()) / 2 for seed in range(3)]
    assert found.mean == pytest.approx(np.mean(by_seed))
    assert found.sd == pytest.approx(np.std(by_seed, ddof=1))


def test_folds_with_other_seeds_combine_their_deviations():
    generator = np.random.default_rng(10)
    one, other = generator.random((3, 5)), generator.random((2, 5))
    found = summarise_folds([Fold(tensor(one), (0, 1, 2)), Fold(tensor(other), (3, 4))])
    deviations = [np.std(values.mean(1), ddof=1) for values in (one, other)]
    assert found.mean == pytest.approx((one.mean() + other.mean()) / 2)
    assert found.sd == pytest.approx(math.hypot(*deviations) / 2)
    assert math.isnan(summarise_folds([Fold(tensor(one[:1]), (0,))]).sd)
