"""Lemmas 1 to 4 of the paper as properties. NDCG on the other side of a bound is counted by plain loops, with every
tied item at the end of its group (the paper's rank), which no other order of the ties falls below."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from songrank import functional as F
from tests.oracles import formulas as oracles

few = settings(derandomize=True, max_examples=60, deadline=None)
QUALIFYING = [
    ("squared_hinge", 1.0),
    ("squared_hinge", 2.0),
    ("smooth_hinge", 1.5),
    ("smooth_hinge", 2.0),
    ("logistic", 1.0),
    ("exponential", 1.0, 1.0),
    ("exponential", 1.0, 0.3),
    ("tanh", 1.0, 0.5),
    ("relu", 1.0, 2.0),
]


@st.composite
def lists(draw, smallest=1):
    """Scores (some of them tied) and labels of one list, at least one of them relevant."""
    size = draw(st.integers(smallest, 9))
    tied = st.integers(-6, 6).map(lambda number: number / 4.0)
    score = st.one_of(tied, st.floats(-8, 8))
    scores = draw(st.lists(score, min_size=size, max_size=size))
    labels = draw(st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.5, 1.0, 2.0, 3.0]), min_size=size, max_size=size))
    labels[draw(st.integers(0, size - 1))] = draw(st.sampled_from([0.5, 1.0, 3.0]))
    return scores, labels


def double(values):
    return torch.tensor(values, dtype=torch.float64)


def smooth_terms(scores, labels, surrogate, margin, temperature=1.0, offset=0.0, k=None):
    """gain_i / (Z log₂(ḡ_i + 1 + o)) for each item."""
    size = len(scores)
    own = {"surrogate": surrogate, "margin": margin, "temperature": temperature}
    g = F.smooth_ranks(double(scores), **own) / size
    ideal = F.ideal_dcg(double(labels), k=k)
    return -F.ndcg_term(g, F.gains(double(labels)), list_size=size, ideal_dcg=ideal, rank_offset=offset)


# ---- Lemma 1


@few
@given(data=lists(), surrogate=st.sampled_from(QUALIFYING), offset=st.sampled_from([0.0, 0.5, 3.0, 64.0]))
def test_lemma_1_the_smooth_objective_never_exceeds_ndcg(data, surrogate, offset):
    scores, labels = data
    smooth = smooth_terms(scores, labels, *surrogate, offset=offset).sum().item()
    assert smooth <= oracles.ndcg(scores, labels) + 1e-12


@few
@given(data=lists(), surrogate=st.sampled_from(QUALIFYING))
def test_lemma_1_the_smooth_rank_is_at_least_the_rank(data, surrogate):
    scores, _ = data
    own = dict(zip(("surrogate", "margin", "temperature"), surrogate, strict=False))
    smooth = F.smooth_ranks(double(scores), **own)
    for index in range(len(scores)):
        assert smooth[index] >= oracles.pessimistic_rank(scores, index) - 1e-12


@few
@given(data=lists(), surrogate=st.sampled_from(QUALIFYING), more=st.floats(0, 100))
def test_a_larger_rank_offset_only_lowers_the_objective(data, surrogate, more):
    scores, labels = data
    lower = smooth_terms(scores, labels, *surrogate, offset=1.0 + more).sum()
    assert lower <= smooth_terms(scores, labels, *surrogate, offset=1.0).sum()


@pytest.mark.parametrize(("surrogate", "margin"), [("sigmoid", 1.0), ("squared_hinge", 0.5), ("smooth_hinge", 1.0)])
def test_lemma_1_fails_for_surrogates_that_do_not_qualify(surrogate, margin):
    scores, labels = [0.0, 0.0], [1.0, 0.0]  # tied: the paper's rank is 2
    assert oracles.ndcg(scores, labels) == pytest.approx(1.0 / math.log2(3))
    assert smooth_terms(scores, labels, surrogate, margin).sum().item() > 1.0 / math.log2(3)


@pytest.mark.parametrize("surrogate", ["squared_hinge", "smooth_hinge", "logistic", "sigmoid"])
def test_smooth_ranks_are_the_sum_over_the_items_that_are_there(surrogate):
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(2, 2, 5, generator=generator, dtype=torch.float64)
    mask = torch.tensor([True, True, False, True, True]).expand(2, 2, 5)
    result = F.smooth_ranks(scores, mask=mask, surrogate=surrogate, margin=1.25)
    for a in range(2):
        for b in range(2):
            row = scores[a, b].tolist()
            for i in (0, 1, 3, 4):
                want = sum(oracles.SURROGATES[surrogate](row[j] - row[i], 1.25) for j in (0, 1, 3, 4))
                assert result[a, b, i].item() == pytest.approx(want, rel=1e-12)


# ---- Lemma 2


@few
@given(data=lists(smallest=2), k=st.integers(1, 8), epsilon=st.sampled_from([0.1, 0.5, 0.75]))
def test_lemma_2_the_threshold_is_the_next_largest_score_and_the_sharp_minimum(data, k, epsilon):
    scores, _ = data
    k = min(k, len(scores) - 1)
    threshold = F.exact_threshold(double(scores), k).item()
    assert threshold == sorted(scores, reverse=True)[k]
    least = oracles.unsmoothed_objective(threshold, scores, k=k, epsilon=epsilon)
    ordered = sorted(scores)
    candidates = ordered + [(a + b) / 2 for a, b in itertools.pairwise(ordered)]
    candidates += [ordered[0] - 1.0, ordered[-1] + 1.0, threshold - 0.01, threshold + 0.01]
    for candidate in candidates:
        there = oracles.unsmoothed_objective(candidate, scores, k=k, epsilon=epsilon)
        assert there - least >= min(epsilon, 1.0 - epsilon) * abs(candidate - threshold) - 1e-9


@few
@given(data=lists(smallest=2), k=st.integers(1, 8))
def test_lemma_2_scores_above_the_threshold_are_those_of_rank_k_or_better(data, k):
    scores, _ = data
    k = min(k, len(scores) - 1)
    threshold = F.exact_threshold(double(scores), k).item()
    for index, score in enumerate(scores):
        assert (score > threshold) == (oracles.pessimistic_rank(scores, index) <= k)


@few
@given(data=lists(smallest=2), k=st.integers(1, 8), counts=st.lists(st.integers(0, 4), min_size=9, max_size=9))
def test_a_weighted_threshold_is_that_of_the_items_repeated(data, k, counts):
    scores, _ = data
    counts = counts[: len(scores)]
    counts[0] = max(counts[0], 1)
    repeated = sorted((s for s, n in zip(scores, counts, strict=True) for _ in range(n)), reverse=True)
    want = repeated[k] if k < len(repeated) else repeated[-1]
    assert F.weighted_threshold(double(scores), double(counts), k).item() == want


@few
@given(data=lists(smallest=2), k=st.integers(1, 8))
def test_a_weighted_threshold_of_unit_counts_is_the_exact_one(data, k):
    scores, _ = data
    k = min(k, len(scores) - 1)
    weighted = F.weighted_threshold(double(scores), torch.ones(len(scores), dtype=torch.float64), k)
    assert weighted == F.exact_threshold(double(scores), k)


@few
@given(
    data=lists(smallest=3),
    k=st.integers(1, 3),
    counts=st.lists(st.floats(0.1, 5), min_size=9, max_size=9),
    epsilon=st.sampled_from([0.25, 0.5]),
)
def test_a_weighted_threshold_minimises_the_weighted_problem(data, k, counts, epsilon):
    scores, _ = data
    counts = counts[: len(scores)]

    def objective(threshold):
        hinge = sum(n * max(0.0, s - threshold) for s, n in zip(scores, counts, strict=True))
        return (k + epsilon) * threshold + hinge

    if sum(counts) < k + epsilon:
        want = min(scores)  # the problem has no minimum; the smallest score is the documented answer
        assert F.weighted_threshold(double(scores), double(counts), k, epsilon).item() == want
        return
    found = F.weighted_threshold(double(scores), double(counts), k, epsilon).item()
    assert objective(found) <= min(objective(score) for score in scores) + 1e-9


# ---- Lemma 3: compared with NDCG@K that counts an item if its (pessimistic) rank is at most K


@few
@given(
    data=lists(),
    k=st.integers(1, 10),
    surrogate=st.sampled_from(QUALIFYING),
    scale=st.sampled_from([0.5, 1.0, 20.0]),
    offset=st.sampled_from([0.0, 4.0]),
)
def test_lemma_3_the_selected_objective_never_exceeds_top_k_ndcg(data, k, surrogate, scale, offset):
    scores, labels = data
    selected, _ = F.smooth_step(double(scores) - F.exact_threshold(double(scores), k), scale)
    smooth = (selected * smooth_terms(scores, labels, *surrogate, offset=offset, k=k)).sum().item()
    assert smooth <= oracles.ndcg(scores, labels, k) + 1e-12


def test_lemma_3_fails_for_the_sigmoid_selector():
    scores, labels, k = [1.0, 0.9, -5.0], [0.0, 1.0, 0.0], 1  # the relevant item is second: NDCG@1 is 0
    assert oracles.ndcg(scores, labels, k) == 0.0
    selected, _ = F.sigmoid_selector(double(scores) - F.exact_threshold(double(scores), k), 2.0)
    smooth = (selected * smooth_terms(scores, labels, "squared_hinge", 1.0, k=k)).sum().item()
    assert smooth == pytest.approx(0.5 * 1.0 / math.log2(1.1**2 + 1.0 + 1.0))


# ---- Lemma 4

FIXED_LISTS = [
    [0.5, 1.0, 2.0, 3.5, 4.75],
    [5.0, 4.0, 3.0, 2.0, 1.0, 0.5, 0.25, 0.1],
    [1.0, 1.0, 1.0, 2.0, 2.0],  # ties across the threshold
    [3.0, 3.0, 3.0, 3.0],
    [0.001, 0.002, 5.0, 4.999],
]
SMALLER = [1e-2, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6]


@pytest.mark.parametrize("scores", FIXED_LISTS)
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("smoothing", ["softplus", "hinge"])
def test_lemma_4_smoothing_moves_the_threshold_by_no_more_than_epsilon_log_one_over_epsilon(scores, k, smoothing):
    # As the lemma has it, one ε is τ₁, τ₂ and the ε of K + ε. The constant 2 serves every list and every ε.
    exact = sorted(scores, reverse=True)[k]
    for epsilon in SMALLER:
        problem = F.ThresholdProblem(k=k, epsilon=epsilon, tau1=epsilon, tau2=epsilon, smoothing=smoothing)
        moved = abs(F.smooth_threshold(double(scores), problem, iterations=80).item() - exact)
        assert moved <= 2.0 * epsilon * math.log(1.0 / epsilon)


@pytest.mark.parametrize("scores", FIXED_LISTS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_lemma_4_with_the_epsilon_of_k_held_fixed_the_distance_is_proportional_to_tau(scores, k):
    exact = sorted(scores, reverse=True)[k]
    for tau in SMALLER:
        problem = F.ThresholdProblem(k=k, epsilon=0.5, tau1=tau, tau2=tau)
        assert abs(F.smooth_threshold(double(scores), problem, iterations=80).item() - exact) <= 3.0 * tau


@few
@given(
    data=lists(),
    smoothing=st.sampled_from(["softplus", "hinge"]),
    tau1=st.sampled_from([0.01, 0.1, 1.0]),
    tau2=st.sampled_from([1e-4, 0.1]),
    ends=st.tuples(st.floats(-10, 10), st.floats(-10, 10)),
)
def test_lemma_4_the_objective_is_strongly_convex_and_smooth(data, smoothing, tau1, tau2, ends):
    scores, _ = data
    size = len(scores)
    problem = F.ThresholdProblem(k=1, tau1=tau1, tau2=tau2, smoothing=smoothing)
    weights = double([1.0 / size] * size)

    def objective(threshold):
        return problem.objective(double(threshold), double(scores), weights, double(float(size))).item()

    low, high = ends
    bend = objective(low) + objective(high) - 2.0 * objective((low + high) / 2.0)
    assert bend >= tau2 / 4.0 * (low - high) ** 2 - 1e-9
    steepest = tau2 + (0.25 if smoothing == "softplus" else 1.0) / tau1
    for threshold in ends:
        curvature = problem.curvature(double(threshold), double(scores), weights).item()
        assert tau2 <= curvature <= steepest * (1.0 + 1e-12)
