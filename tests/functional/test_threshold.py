"""The threshold problem: its derivatives against finite differences, and its minimiser."""

from fractions import Fraction

import pytest
import torch

from songrank import functional as F
from tests.oracles import formulas as oracles

SCORES = [
    [0.31, -0.42, 1.27, 0.08, 2.13, -1.36],
    [4.02, 3.91, 4.17, 4.33, 3.86, 4.08],
]
WEIGHTS = [
    [0.3, 0.05, 0.15, 0.25, 0.05, 0.2],
    [1 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 6, 1 / 6],
]
SIZES = [40.0, 6.0]
THRESHOLDS = [0.11, 4.05]
CENTRES = [-0.7, 3.0]
PROBLEMS = [
    {"k": 2, "epsilon": 0.5, "tau1": 0.5, "tau2": 0.01, "smoothing": "softplus"},
    {"k": 1, "epsilon": 0.2, "tau1": 0.1, "tau2": 0.3, "smoothing": "softplus"},
    {"k": 2, "epsilon": 0.5, "tau1": 0.5, "tau2": 0.01, "smoothing": "hinge"},
    {"k": 3, "epsilon": 0.9, "tau1": 2.0, "tau2": 0.0, "smoothing": "hinge"},
]
every_problem = pytest.mark.parametrize(
    "constants", PROBLEMS, ids=lambda part: f"{part['smoothing']}-{part['tau1']}-{part['tau2']}"
)


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def given_tensors():
    return double(THRESHOLDS), double(SCORES), double(WEIGHTS)


@every_problem
def test_the_objective_follows_the_formula(constants):
    problem = F.ThresholdProblem(**constants)
    found = problem.objective(*given_tensors(), double(SIZES), double(CENTRES))
    want = [
        oracles.threshold_objective(THRESHOLDS[q], SCORES[q], WEIGHTS[q], SIZES[q], centre=CENTRES[q], **constants)
        for q in range(2)
    ]
    torch.testing.assert_close(found, double(want), rtol=1e-12, atol=1e-14)


@every_problem
def test_the_gradient_is_the_derivative_of_the_objective(constants):
    problem = F.ThresholdProblem(**constants)
    found = problem.gradient(*given_tensors(), double(SIZES), double(CENTRES))
    for q in range(2):
        (want,) = oracles.central_difference(
            lambda x, q=q: oracles.threshold_objective(
                x[0], SCORES[q], WEIGHTS[q], SIZES[q], centre=CENTRES[q], **constants
            ),
            [THRESHOLDS[q]],
        )
        assert found[q].item() == pytest.approx(want, rel=1e-6, abs=1e-9)


@every_problem
def test_the_centre_is_zero_unless_given(constants):
    problem = F.ThresholdProblem(**constants)
    found = problem.gradient(*given_tensors(), double(SIZES))
    for q in range(2):
        want = oracles.threshold_gradient(THRESHOLDS[q], SCORES[q], WEIGHTS[q], SIZES[q], centre=0.0, **constants)
        assert found[q].item() == pytest.approx(want, rel=1e-12)


@every_problem
def test_the_curvature_is_the_second_derivative_of_the_objective(constants):
    problem = F.ThresholdProblem(**constants)
    found = problem.curvature(*given_tensors())
    for q in range(2):
        (want,) = oracles.central_difference(
            lambda x, q=q: oracles.threshold_gradient(
                x[0], SCORES[q], WEIGHTS[q], SIZES[q], centre=CENTRES[q], **constants
            ),
            [THRESHOLDS[q]],
        )
        assert found[q].item() == pytest.approx(want, rel=1e-6, abs=1e-9)


@every_problem
def test_the_cross_curvature_is_minus_the_mixed_derivative_in_threshold_and_score(constants):
    problem = F.ThresholdProblem(**constants)
    found = problem.cross_curvature(*given_tensors())
    for q in range(2):
        mixed = oracles.central_difference(
            lambda scores, q=q: oracles.threshold_gradient(
                THRESHOLDS[q], scores, WEIGHTS[q], SIZES[q], centre=CENTRES[q], **constants
            ),
            SCORES[q],
        )
        torch.testing.assert_close(found[q], -double(mixed), rtol=1e-6, atol=1e-9)


@every_problem
def test_the_smooth_threshold_is_the_root_of_the_gradient_and_the_minimum_of_the_objective(constants):
    problem = F.ThresholdProblem(**constants)
    found = F.smooth_threshold(
        double(SCORES), problem, weights=double(WEIGHTS), list_size=double(SIZES), centre=double(CENTRES)
    )
    for q in range(2):
        arguments = (SCORES[q], WEIGHTS[q], SIZES[q])
        root = found[q].item()
        assert oracles.threshold_gradient(root, *arguments, centre=CENTRES[q], **constants) == pytest.approx(
            0, abs=1e-12
        )
        least = oracles.threshold_objective(root, *arguments, centre=CENTRES[q], **constants)
        for step in (1e-3, 0.1, 3.0):
            for side in (-step, step):
                assert oracles.threshold_objective(root + side, *arguments, centre=CENTRES[q], **constants) >= least


@every_problem
def test_shifting_the_scores_and_the_centre_shifts_the_threshold(constants):
    problem = F.ThresholdProblem(**constants)
    shift = double([17.25, -3.5])
    before = F.smooth_threshold(double(SCORES), problem, centre=double(CENTRES))
    after = F.smooth_threshold(double(SCORES) + shift.unsqueeze(1), problem, centre=double(CENTRES) + shift)
    torch.testing.assert_close(after, before + shift, rtol=0.0, atol=1e-11)


@every_problem
def test_weights_stand_for_repeated_items(constants):
    counts = [3, 1, 2, 4, 1, 1]
    repeated = [score for score, count in zip(SCORES[0], counts, strict=True) for _ in range(count)]
    problem = F.ThresholdProblem(**constants)
    weighted = F.smooth_threshold(
        double(SCORES[0]), problem, weights=double([count / 12 for count in counts]), list_size=double(12.0)
    )
    torch.testing.assert_close(weighted, F.smooth_threshold(double(repeated), problem), rtol=0.0, atol=1e-11)


@every_problem
def test_items_of_weight_zero_are_not_looked_at(constants):
    problem = F.ThresholdProblem(**constants)
    plain = F.smooth_threshold(double(SCORES[0]), problem, list_size=double(6.0))
    more = F.smooth_threshold(
        double([*SCORES[0], 1e9, -1e9]), problem, weights=double([1 / 6] * 6 + [0.0, 0.0]), list_size=double(6.0)
    )
    torch.testing.assert_close(more, plain, rtol=0.0, atol=1e-11)


def test_leading_axes_are_batch():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 7, generator=generator, dtype=torch.float64)
    problem = F.ThresholdProblem(k=2, tau1=0.2)
    many = F.smooth_threshold(scores, problem)
    assert many.shape == (2, 3)
    torch.testing.assert_close(many[1, 2], F.smooth_threshold(scores[1, 2], problem), rtol=0.0, atol=1e-12)
    assert F.exact_threshold(scores, 2).shape == (2, 3)
    assert F.weighted_threshold(scores, torch.ones_like(scores), 2).equal(F.exact_threshold(scores, 2))


def test_the_exact_threshold_skips_padding_and_is_minus_infinity_where_all_are_selected():
    scores = double([[5.0, 4.0, 3.0, 2.0], [5.0, 4.0, 3.0, 2.0], [5.0, 4.0, 3.0, 2.0]])
    mask = torch.tensor([[True] * 4, [False, True, True, True], [False, False, True, True]])
    assert F.exact_threshold(scores, 2, mask=mask).tolist() == [3.0, 2.0, -torch.inf]
    assert F.exact_threshold(scores, 4).tolist() == [-torch.inf] * 3
    assert F.exact_threshold(scores, 9).tolist() == [-torch.inf] * 3


def test_a_weighted_threshold_does_not_look_at_scores_that_count_for_nothing():
    scores = double([[9.0, 1.0, 3.0, 2.0]])
    assert F.weighted_threshold(scores, double([[0.0, 1.0, 1.0, 1.0]]), 1).tolist() == [2.0]
    assert F.weighted_threshold(scores, double([[0.0, 1.0, 1.0, 1.0]]), 8).tolist() == [1.0]


def threshold_by_fractions(scores, counts, k):
    """The largest score at which the exact cumulative count reaches K + ½."""
    total = Fraction(0)
    for score, count in sorted(zip(scores, counts, strict=True), reverse=True):
        total += count
        if total >= k + Fraction(1, 2):
            return score
    return min(scores)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("count", "k"), [((1, 10), 1), ((7, 6), 3), ((9, 14), 4), ((41, 22), 20), ((1333, 300), 666)])
def test_a_cumulative_count_of_k_and_a_half_gives_the_larger_score_in_any_order_and_precision(dtype, count, k):
    """The count, rounded, times the number of items is below or above K + ½, which the exact product equals."""
    count = Fraction(*count)
    needed = (k + Fraction(1, 2)) / count
    assert needed.denominator == 1
    scores = [0.25 * j for j in range(int(needed) + 7)]
    assert threshold_by_fractions(scores, [count] * len(scores), k) == scores[-int(needed)]
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        order = torch.randperm(len(scores), generator=generator)
        counts = torch.full((len(scores),), float(count), dtype=dtype)
        for drift in (1.0, 1.0 - 2e-7, 1.0 + 2e-7):  # as of weights that were divided by N and multiplied again
            found = F.weighted_threshold(torch.tensor(scores, dtype=dtype)[order], counts * drift, k)
            assert found.item() == scores[-int(needed)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sampled_slate_decides_ties_as_fractions_do(dtype):
    """Counts of 1 for relevant items and N⁻/m⁻ for others; some cumulative counts equal K + ½."""
    generator = torch.Generator().manual_seed(1)
    ties = 0
    for sampled in (2, 4, 6, 10, 12):
        for k in range(1, 14):
            counts = [Fraction(1)] * 3 + [Fraction(27, sampled)] * sampled
            scores = torch.randn(len(counts), generator=generator).tolist()
            sums = {sum(c for c, s in zip(counts, scores, strict=True) if s >= at) for at in scores}
            ties += k + Fraction(1, 2) in sums
            values = torch.tensor([float(count) for count in counts], dtype=dtype) / 30 * 30
            found = F.weighted_threshold(torch.tensor(scores, dtype=dtype), values, k)
            assert found.item() == threshold_by_fractions(scores, counts, k)
    assert ties > 3


def test_the_smooth_threshold_is_the_minimum_even_where_k_is_the_whole_list():
    # Nothing to select: only τ₂ holds λ̂ back, far below all scores, at (K + ε)/N + τ₂λ = 1, so λ = −(0.5/3)/τ₂.
    problem = F.ThresholdProblem(k=3, epsilon=0.5, tau1=0.1, tau2=1e-3)
    found = F.smooth_threshold(double([1.0, 2.0, 3.0]), problem)
    assert found.item() == pytest.approx(-(0.5 / 3.0) / 1e-3, rel=1e-9)


@pytest.mark.parametrize(
    "wrong", [{"k": 0}, {"epsilon": 0.0}, {"tau1": 0.0}, {"tau2": -1.0}, {"smoothing": "relu"}], ids=str
)
def test_constants_outside_their_range_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        F.ThresholdProblem(**{"k": 2, **wrong})


def test_an_epsilon_of_one_is_refused_because_the_minimiser_would_not_be_unique():
    # Lemma 2 needs ε < 1: with ε = 1 every λ between the (K+1)-th and the (K+2)-th score is a minimum.
    at = [oracles.unsmoothed_objective(x, [4.0, 3.0, 2.0, 1.0], k=1, epsilon=1.0) for x in (3.0, 2.5, 2.0)]
    assert at[0] == at[1] == at[2]
    with pytest.raises(ValueError, match="epsilon"):
        F.ThresholdProblem(k=1, epsilon=1.0)
