"""Faster SONG and Faster K-SONG against the paper's last algorithm in plain float64 loops, step by step."""

import copy
import math
from dataclasses import replace

import pytest
import torch

from songrank import SONG
from songrank.losses.faster_ksong import FasterKSONG
from songrank.losses.faster_song import FasterSONG
from songrank.losses.paper_form import FasterForm, PaperForm
from songrank.losses.schedules import Schedule
from songrank.losses.top_k import ThresholdOptions
from songrank.training.optim.storm import Storm
from tests.oracles.faster_losses import BATCH, QUERIES, FasterOracle
from tests.slates import sampled_slate

STEPS = 36
ROWS, PAIRS, COLUMNS = 6, 64, 11


def slates(k=None, steps=STEPS):
    """Two to four neighbouring queries a step, so that some are drawn twice in a row and others rarely."""
    generator = torch.Generator().manual_seed(3)
    for seed in range(steps):
        count = int(torch.randint(2, BATCH + 1, (), generator=generator))
        first = int(torch.randint(0, ROWS - count + 1, (), generator=generator))
        yield sampled_slate(seed, rows=ROWS, columns=COLUMNS, k=k).rows(first, first + count)


class Scorer:
    """h = 2 tanh(x · w) for fixed features of each query and column; by hand: scores, derivative, chain rule."""

    def __init__(self):
        self.features = torch.randn(ROWS, COLUMNS, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def __call__(self, slate, w):
        return 2.0 * torch.tanh(self.features[slate.query] @ w)

    def jacobian(self, slate, w):
        x = self.features[slate.query]
        return 2.0 * (1.0 - torch.tanh(x @ w).square()).unsqueeze(-1) * x


def build(oracle, dtype=torch.float64):
    gamma = Schedule(*oracle.gamma) if isinstance(oracle.gamma, tuple) else oracle.gamma
    shared = {"margin": oracle.margin, "rank_offset": oracle.offset, "dtype": dtype}
    shared |= {"surrogate": oracle.inner, "temperature": oracle.temperature}
    form = FasterForm(lagged=oracle.lagged, memory=oracle.memory, earlier=oracle.earlier)
    if oracle.k is None:
        return FasterSONG(PAIRS, QUERIES, BATCH, gamma, form=form, **shared)
    form = replace(form, threshold_step=oracle.step, implicit=oracle.implicit, smoothing=oracle.smoothing)
    threshold = ThresholdOptions(oracle.rate, oracle.gamma_s, tau1=oracle.tau1, tau2=oracle.tau2)
    options = {"mode": oracle.mode, "selector_scale": oracle.scale, "threshold": threshold, "form": form}
    return FasterKSONG(PAIRS, ROWS, oracle.k, BATCH, gamma, active_queries=QUERIES, **shared, **options)


def same(found, expected):
    torch.testing.assert_close(found, torch.as_tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-11)


def same_tables(loss, oracle):
    tables = {"u": oracle.u}
    if loss.surrogate.in_logs:
        tables = {"log_u": {pair: math.log(u) for pair, u in oracle.u.items()}}
    if oracle.k is not None:
        tables |= {"threshold": oracle.lam, "curvature": oracle.s, "slope": oracle.z, "centre": oracle.c}
    for name, rows in tables.items():
        table = loss.table(name)
        expected = torch.tensor([rows.get(row, torch.nan) for row in range(table.num_rows)], dtype=torch.float64)
        torch.testing.assert_close(table.read(), expected, rtol=1e-9, atol=1e-11, equal_nan=True)
    assert loss.guarded.tolist() == oracle.guarded[: loss.guarded.numel()]


CASES = [
    {},
    {"lagged": True},
    {"k": 4, "lagged": True},
    {"k": 4, "lagged": True, "implicit": "slate"},
    {"gamma": (20.0, 0.05)},
    {"margin": 2.0, "gamma": 0.4},
    {"inner": "exponential", "temperature": 0.7},
    {"inner": "tanh", "temperature": 0.8, "gamma": 0.4},
    {"inner": "exponential", "lagged": True, "k": 3, "mode": "practical"},
    {"k": 3},
    {"k": 3, "gamma": (20.0, 0.05), "step": "newton"},
    {"k": 5, "implicit": "slate", "step": "newton", "mode": "theoretical"},
    {"k": 3, "mode": "practical"},
    {"k": 3, "implicit": "memory_before"},
    {"earlier": "corrected"},
    {"earlier": "corrected", "inner": "exponential", "temperature": 0.7},
    {"earlier": "corrected", "k": 3},
    {"earlier": "corrected", "k": 4, "implicit": "slate", "mode": "practical"},
    {"k": 2, "smoothing": "hinge", "tau1": 0.8, "rate": 0.1},
]


@pytest.mark.parametrize("memory", ["msvr", "storm", "moving_average"])
@pytest.mark.parametrize("options", CASES, ids=str)
def test_two_points_follow_the_algorithm_to_the_momentum_and_the_weights(memory, options):
    oracle, scorer = FasterOracle(memory, **options), Scorer()
    loss = build(oracle)
    w = torch.nn.Parameter(torch.tensor([0.6, -0.4, 0.2], dtype=torch.float64))
    optimiser = Storm([w], lr=0.02, gamma=0.3)
    at, behind, momentum = w.detach().clone(), w.detach().clone(), None
    for slate in slates(oracle.k):
        optimiser.zero_grad()
        previous = optimiser.state[w]["previous"]
        scores, before = scorer(slate, w), scorer(slate, previous)
        value = loss(torch.where(slate.mask, scores, torch.nan), slate, before=before)
        value.backward()
        expected, now, then = oracle(slate, scorer(slate, at), scorer(slate, behind))
        g_now = torch.einsum("bl,bld->d", torch.tensor(now, dtype=torch.float64), scorer.jacobian(slate, at))
        g_then = torch.einsum("bl,bld->d", torch.tensor(then, dtype=torch.float64), scorer.jacobian(slate, behind))
        same(value.detach(), expected)
        same(w.grad, g_now)
        same(previous.grad, g_then)
        same_tables(loss, oracle)
        optimiser.step()
        momentum = g_now if momentum is None else 0.7 * (momentum - g_then) + g_now
        at, behind = at - 0.02 * momentum, at
        same(optimiser.state[w]["momentum"], momentum)
        same(w.detach(), at)
    assert int(loss.steps) == STEPS


@pytest.mark.parametrize("memory", ["msvr", "storm"])
@pytest.mark.parametrize("options", CASES, ids=str)
def test_the_single_point_follows_the_algorithm(memory, options):
    oracle, scorer = FasterOracle(memory, **options), Scorer()
    loss = build(oracle)
    w = behind = torch.tensor([0.6, -0.4, 0.2], dtype=torch.float64)
    for slate in slates(oracle.k):
        jacobian = scorer.jacobian(slate, w)
        scores, change = scorer(slate, w).requires_grad_(), jacobian @ (w - behind)
        value = loss(scores, slate, change=change)
        value.backward()
        expected, now, _ = oracle(slate, scores.detach(), change=change)
        same(value.detach(), expected)
        same(scores.grad, now)
        same_tables(loss, oracle)
        w, behind = w - 0.05 * torch.einsum("bl,bld->d", scores.grad, jacobian), w


@pytest.mark.parametrize("k", [None, 3])
def test_the_single_point_is_the_two_point_change_to_first_order(k):
    """Halving the distance between the points quarters what the two updates differ by."""
    oracle, scorer = FasterOracle("msvr", k=k), Scorer()
    loss = build(oracle)
    w, direction = torch.tensor([0.6, -0.4, 0.2]).double(), torch.tensor([0.3, 0.5, -0.4]).double()
    *earlier, last = slates(k, steps=12)
    for slate in earlier:
        loss(scorer(slate, w), slate)
    rows = loss.gather(last)

    def difference(size):
        before = scorer(last, w - size * direction)
        change = scorer.jacobian(last, w) @ (size * direction)
        two = loss.step(scorer(last, w), last, rows, before=before)[1]
        one = loss.step(scorer(last, w), last, rows, change=change)[1]
        names = ["u"] if k is None else ["u", "curvature", "slope"]
        return torch.tensor([float((two[name] - one[name]).abs().max()) for name in names])

    coarse, fine = difference(4e-3), difference(2e-3)
    assert (coarse > 1e-9).all()
    torch.testing.assert_close(coarse / fine, torch.full_like(coarse, 4.0), rtol=0.05, atol=0)


@pytest.mark.parametrize("lagged", [False, True])
def test_without_another_point_faster_song_is_song(lagged):
    plain = SONG(PAIRS, 0.3, dtype=torch.float64, form=PaperForm(lagged=lagged))
    faster = FasterSONG(PAIRS, QUERIES, BATCH, 0.3, dtype=torch.float64, form=FasterForm(lagged=lagged))
    scorer = Scorer()
    for number, slate in enumerate(slates()):
        scores = scorer(slate, torch.randn(3, generator=torch.Generator().manual_seed(number), dtype=torch.float64))
        torch.testing.assert_close(faster(scores, slate), plain(scores, slate), rtol=1e-12, atol=0)
        assert torch.equal(faster.objective(scores, slate), plain.objective(scores, slate))
    torch.testing.assert_close(faster.u.read(), plain.u.read(), rtol=1e-12, atol=0, equal_nan=True)


@pytest.mark.parametrize("options", [{"gamma": (20.0, 0.05)}, {"k": 3, "gamma": (20.0, 0.05)}], ids=str)
def test_a_state_saved_in_mid_run_goes_on_to_the_same_bits(options):
    oracle, scorer = FasterOracle("msvr", **options), Scorer()
    start = torch.tensor([0.6, -0.4, 0.2], dtype=torch.float64)

    def begin():
        w = torch.nn.Parameter(start.clone())
        return build(oracle, torch.float32), w, Storm([w], lr=0.02, adam=True, schedule=Schedule(50.0, 0.2))

    def go(loss, w, optimiser, some):
        for slate in some:
            optimiser.zero_grad()
            loss(scorer(slate, w), slate, before=scorer(slate, optimiser.state[w]["previous"])).backward()
            optimiser.step()

    first, second = begin(), begin()
    drawn = list(slates(oracle.k))
    go(*first, drawn[:20])
    saved = copy.deepcopy((first[0].state_dict(), first[1].detach(), first[2].state_dict()))
    go(*first, drawn[20:])
    second[0].load_state_dict(saved[0])
    second[1].data.copy_(saved[1])
    second[2].load_state_dict(saved[2])
    go(*second, drawn[20:])
    assert torch.equal(first[1], second[1])
    ends = [loss.state_dict() for loss in (first[0], second[0])]
    assert all(torch.equal(value, ends[1][name]) for name, value in ends[0].items())


def test_evaluation_changes_nothing_and_reset_forgets_all():
    loss = build(FasterOracle("msvr", k=3))
    fresh = copy.deepcopy(loss.state_dict())
    scorer, w = Scorer(), torch.ones(3, dtype=torch.float64)
    first, second = slates(3, steps=2)
    loss.eval()(scorer(first, w), first, before=scorer(first, 1.1 * w))
    assert all(torch.equal(value, loss.state_dict()[name]) for name, value in fresh.items())
    loss.train()(scorer(first, w), first)
    loss(scorer(second, w), second)
    loss.reset()
    assert all(torch.equal(value, loss.state_dict()[name]) for name, value in fresh.items())


def test_a_cast_leaves_what_is_remembered_as_it_is():
    loss = build(FasterOracle("msvr", k=3), torch.float32)
    slate = next(slates(3))
    loss(Scorer()(slate, torch.ones(3, dtype=torch.float64)), slate)
    kept = loss.last_threshold.clone()
    loss.half()
    assert loss.last_threshold.dtype == torch.float32
    assert torch.equal(loss.last_threshold, kept)
    assert loss.steps.dtype == loss.guarded.dtype == torch.int64


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gamma": 1.0, "form": "paper"}, "gamma is 1.0"),
        ({"gamma": 1.1}, "gamma is 1.1"),
        ({"points": 3}, "points is 3; expected 1 or 2"),
        ({"active_queries": 0}, "active_queries is 0"),
        ({"queries_per_batch": 0}, "at least"),
    ],
)
def test_a_wrong_option_is_named(options, words):
    with pytest.raises(ValueError, match=words):
        FasterSONG(**{"num_pairs": 4, "num_queries": 3, "queries_per_batch": 2, **options})


def test_a_form_with_a_wrong_or_foreign_switch_is_rejected():
    with pytest.raises(ValueError, match="memory is 'sarah'"):
        FasterForm(memory="sarah")
    with pytest.raises(
        ValueError, match=r"form.selection is 'rank'; expected 'bilevel', since the option does not apply"
    ):
        FasterKSONG(4, 3, 2, 2, form=FasterForm(selection="rank"))
    with pytest.raises(TypeError, match="expected 'paper' or a FasterForm"):
        FasterSONG(4, 3, 2, form=PaperForm())


def test_a_wrong_call_is_named():
    loss, slate = build(FasterOracle("msvr")), next(slates())
    scores = torch.zeros(slate.label.shape)
    with pytest.raises(ValueError, match="before and change"):
        loss(scores, slate, before=scores, change=scores)
    with pytest.raises(ValueError, match="before has shape"):
        loss(scores, slate, before=scores[:, :2])
    whole = sampled_slate(0, rows=ROWS, columns=COLUMNS)
    with pytest.raises(ValueError, match="queries_per_batch=4"):
        loss(torch.zeros(whole.label.shape), whole)
