"""The forms with two points: against the losses of the package, against gradient descent, and their bias."""

import pytest
import torch
from torch.func import functional_call

from songrank.losses import FasterKSONG, FasterSONG
from songrank.losses.paper_form import FasterForm
from songrank.losses.schedules import Schedule
from songrank.losses.top_k import ThresholdOptions
from songrank.training.optim.storm import Storm
from songrank_paper.theory.forms import noise_free
from songrank_paper.theory.methods import C0, EQUATION_5, FASTER_THRESHOLD_RATE, SMOOTHING, TOP_K
from songrank_paper.theory.problem import DECAY, MARGIN, QUERIES, K
from songrank_paper.theory.runs import Draws, Scorer
from songrank_paper.theory.still import stand_still
from songrank_paper.theory.two_points import FORMS, MEMORIES, StepSizes, TwoPoints, _Point
from tests.songrank_paper.theory.small_problem import HERE, PROBLEM

A, RATE, SEEDS = 0.1, 0.05, (0, 1)


def by_the_package(form, top_k, batch, irrelevant, steps):
    """Weights after steps of FasterSONG or FasterKSONG with Storm."""
    draws, scorer = Draws(PROBLEM, batch, irrelevant, SEEDS, K if top_k else None), Scorer(PROBLEM, 1, len(SEEDS))
    base, runs, schedule = PROBLEM.relevance, len(SEEDS), Schedule(C0, A)
    rows = runs * base.num_pairs, runs * base.num_queries
    if top_k:
        threshold = ThresholdOptions(FASTER_THRESHOLD_RATE, **SMOOTHING)
        sizes = (*rows, K, runs * batch, schedule)
        loss = FasterKSONG(*sizes, threshold=threshold, form=FasterForm(**form, **EQUATION_5), **TOP_K)
    else:
        options = {"margin": MARGIN, "rank_offset": 0.0, "dtype": torch.float64}
        loss = FasterSONG(*rows, runs * batch, schedule, form=FasterForm(**form), **options)
    storm = Storm([{"params": list(scorer.runs), "lr": RATE}], weight_decay=DECAY, schedule=schedule)
    previous = storm.previous(scorer)
    for slate in draws.steps(steps):
        storm.zero_grad()
        where = slate.query, slate.item
        value = loss(scorer(*where), slate, before=functional_call(scorer, previous, where))
        torch.autograd.backward(runs * value)
        storm.step()
    return scorer.weights().detach()


def by_plain_tensors(form, memory, top_k, batch, irrelevant, steps):
    draws, scorer = Draws(PROBLEM, batch, irrelevant, SEEDS, K if top_k else None), Scorer(PROBLEM, 1, len(SEEDS))
    run = TwoPoints(scorer, draws, [RATE], StepSizes(A), form, memory, top_k=top_k)
    for slate in draws.steps(steps):
        run.step(slate)
    return scorer.weights().detach()


@pytest.mark.parametrize("top_k", [False, True])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("form", ["printed", "lagged", "corrected"])
def test_two_implementations_agree_on_sampled_slates(form, memory, top_k):
    """The package computes Z in float32, which limits the agreement."""
    earlier = "memory" if form == "printed" else "corrected"
    options = {"lagged": form == "lagged", "earlier": earlier, "memory": memory}
    theirs = by_the_package(options, top_k, 5, 8, 12)
    ours = by_plain_tensors(form, memory, top_k, 5, 8, 12)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert float(ours.abs().max()) > 0.01


@pytest.mark.parametrize("top_k", [False, True])
def test_without_noise_the_corrected_form_is_gradient_descent(top_k):
    ends = {
        form: noise_free(HERE, form=form, rate=1.0, steps=100, top_k=top_k)["squared"]
        for form in ("gradient descent", *FORMS)
    }
    assert ends["corrected"][-1] < 1e-7
    assert ends["gradient descent"][-1] < 1e-7
    assert ends["lagged"][-1] > 1e-3
    if not top_k:  # in F_K, λ is tracked and not exact
        assert ends["corrected"][:20] == pytest.approx(ends["gradient descent"][:20], rel=1e-6)


@pytest.mark.parametrize("memory", MEMORIES)
def test_at_constant_weights_both_gradients_of_the_corrected_form_are_equal(memory, monkeypatch):
    def largest_difference(form):
        pairs = []
        monkeypatch.setattr(_Point, "gradient", lambda *given: pairs.append(gradient(*given)) or pairs[-1])
        draws = Draws(PROBLEM, 5, 8, (3,))
        scorer = Scorer(PROBLEM, 1, 1)
        with torch.no_grad():
            scorer.runs[0].copy_(0.3 * PROBLEM.teacher)  # at 0 all scores are equal, which leaves no noise
        run = TwoPoints(scorer, draws, [0.0], StepSizes(A), form, memory, top_k=False)
        for slate in draws.steps(30):
            run.step(slate)
        return max(float((now - then).norm()) for now, then in zip(pairs[::2], pairs[1::2], strict=True))

    gradient = _Point.gradient
    assert largest_difference("corrected") < 1e-12
    assert largest_difference("printed") > 0.01


def test_the_bias_of_the_corrected_form_at_a_fixed_point_is_that_of_song():
    options = {"a": 0.03, "seeds": list(range(300, 332)), "steps": 200, "batch": 5, "irrelevant": 8}
    found = {name: stand_still(HERE, method=name, **options) for name in ("song", "corrected-song", "faster-song")}
    error = found["song"]["error"] + found["corrected-song"]["error"]
    assert abs(found["song"]["bias"] - found["corrected-song"]["bias"]) < 3 * error
    assert found["faster-song"]["bias"] > 5 * found["corrected-song"]["bias"]


def test_whole_lists_of_all_queries_keep_the_memory_exact():
    draws, scorer = Draws(PROBLEM, QUERIES, "all", (0,)), Scorer(PROBLEM, 1, 1)
    run = TwoPoints(scorer, draws, [1.0], StepSizes(A), "corrected", top_k=False)
    for slate in draws.steps(4):
        exact = PROBLEM.ranks(PROBLEM.scores(scorer.weights().detach()))
        run.step(slate)
        found = run.table["u"][PROBLEM.pair_order]
        torch.testing.assert_close(found, exact[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("wrong", [{"form": "late"}, {"memory": "none"}])
def test_an_unknown_form_or_memory_raises(wrong):
    draws, scorer = Draws(PROBLEM, 5, 8, (0,)), Scorer(PROBLEM, 1, 1)
    options = {"form": "printed", "memory": "storm", **wrong}
    with pytest.raises(ValueError, match="expected one of"):
        TwoPoints(scorer, draws, [1.0], StepSizes(A), options["form"], options["memory"], top_k=False)
