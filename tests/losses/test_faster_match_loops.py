"""Faster SONG and Faster K-SONG against the paper's last algorithm in plain float64 loops, step by step."""

import copy
import math
from dataclasses import dataclass, field

import pytest
import torch

from songrank import SONG
from songrank.losses.faster_ksong import FasterKSONG
from songrank.losses.faster_song import FasterSONG
from songrank.losses.schedules import Schedule
from songrank.training.storm import Storm
from tests.oracles import list_weights, outer, rank_weights, rows_of, selector, surrogate
from tests.slates import sampled_slate

STEPS = 36
ROWS, BATCH, QUERIES, PAIRS, COLUMNS = 6, 4, 12, 64, 11


@dataclass
class FasterOracle:
    """The algorithm on dictionaries: u, λ, s, z and the λ that the step before used."""

    memory: str
    gamma: float | tuple[float, float] = 0.2
    gamma_s: float = 0.3
    k: int | None = None
    mode: str = "theoretical"
    step: str = "gradient"
    implicit: str = "memory"
    rate: float = 0.3
    tau1: float = 0.4
    tau2: float = 0.01
    smoothing: str = "softplus"
    margin: float = 1.0
    offset: float = 2.0
    scale: float = 2.0
    t: int = 0
    guarded: list[int] = field(default_factory=lambda: [0, 0])
    u: dict = field(default_factory=dict)
    lam: dict = field(default_factory=dict)
    s: dict = field(default_factory=dict)
    z: dict = field(default_factory=dict)
    c: dict = field(default_factory=dict)
    last: dict = field(default_factory=dict)

    def eta(self):
        return (self.gamma[0] / (self.gamma[0] + self.t)) ** (1 / 3) if isinstance(self.gamma, tuple) else 1.0

    def track(self, table, key, now, then, change, share, gamma):
        """Moves a row on; returns its value before."""
        if isinstance(self.gamma, tuple):
            gamma = min(0.5, self.gamma[1] * self.eta() ** 2 / share)
        if key not in table:
            table[key] = now
            return now if then is None else then
        old = table[key]
        if self.memory == "msvr":
            beta = 1 - gamma + (1 - share) / (share * (1 - gamma))
        else:
            beta = 1 - gamma if self.memory == "storm" else 0.0
        if then is not None:
            change = now - then
        table[key] = (1 - gamma) * old + gamma * now + beta * change
        return old

    def guard(self, table, key, floor, which):
        if table[key] < 0.999 * floor:
            self.guarded[which] += 1
        table[key] = max(table[key], floor)

    def __call__(self, slate, scores, before=None, change=None):
        """(value, G at scores, G at before)."""
        self.t += 1
        shape = scores.shape
        now, then = ([[0.0] * shape[1] for _ in range(shape[0])] for _ in range(2))
        rows = rows_of(scores, slate)
        past = [None] * len(rows) if before is None else rows_of(before, slate)
        moves = [None] * len(rows) if change is None else rows_of(change, slate)
        self.used = {}
        value = sum(self.one_query(*each) for each in zip(rows, past, moves, now, then, strict=True) if each[0].present)
        self.last = self.used
        return value, now, then

    def one_query(self, row, past, move, now, then):
        share = BATCH / QUERIES
        points = [(row, now)] + ([] if past is None else [(past, then)])
        choice = [None, None]
        if self.k is not None and self.k < row.size:
            choice = self.threshold(row, past, move, share)
        value = 0.0
        for pair, i in row.pairs:
            weights = rank_weights(row, i, "strata")
            estimates = [
                sum(
                    w * surrogate("squared_hinge", p.scores[j] - p.scores[i], self.margin)[0]
                    for j, w in weights.items()
                )
                for p, _ in points
            ]
            moved = 0.0
            if move is not None:
                for j, w in weights.items():
                    slope = surrogate("squared_hinge", row.scores[j] - row.scores[i], self.margin)[1]
                    moved += w * slope * (move.scores[j] - move.scores[i])
            drawn = share * min(1.0, len(row.pairs) / row.total)
            known = estimates[1] if past is not None else None
            old = self.track(self.u, pair, estimates[0], known, moved, drawn, self.gamma)
            self.guard(self.u, pair, self.margin**2 / row.size, 0)
            for (point, gradient), u, chosen in zip(points, (self.u[pair], old), choice, strict=False):
                added = self.add_gradient(point, i, u, chosen, weights, gradient)
                value += added if point is row else 0.0
        return value

    def add_gradient(self, point, i, u, chosen, weights, gradient):
        f, slope = outer(max(u, self.margin**2 / point.size), point.labels[i], point, self.offset)
        share = point.share * point.total / len(point.pairs)
        psi, psi_slope = 1.0, 0.0
        if chosen is not None:
            psi, psi_slope = selector("sigmoid", point.scores[i] - chosen[0], self.scale)
        for j, w in weights.items():
            push = (
                share * psi * slope * w * surrogate("squared_hinge", point.scores[j] - point.scores[i], self.margin)[1]
            )
            gradient[j] += push
            gradient[i] -= push
        if chosen is not None and self.mode == "theoretical":
            gradient[i] += share * psi_slope * f
            for j, derivative in chosen[1].items():
                gradient[j] -= share * psi_slope * f * derivative
        return share * psi * f

    def threshold(self, row, past, move, share):
        """(λ, ∇λ) at both points; moves λ, s and z on."""
        weights, q = list_weights(row, "strata"), row.query
        total, own = 0.0, 0.0
        for j in sorted(weights, key=lambda j: -row.scores[j]):
            own = row.scores[j]
            total += weights[j] * row.size
            if total >= self.k + 0.5:
                break
        lam = self.lam.setdefault(q, own)
        earlier = self.last.get(q, lam)
        centre = self.c.setdefault(q, lam)

        def at(scores, threshold):
            x = {j: (scores[j] - threshold) / self.tau1 for j in weights}
            if self.smoothing == "softplus":
                first = {j: 0.5 * (1 + math.tanh(v / 2)) for j, v in x.items()}
                second = {j: 1 / (4 * self.tau1 * math.cosh(v / 2) ** 2) for j, v in x.items()}
                third = {j: -second[j] * math.tanh(v / 2) / self.tau1 for j, v in x.items()}
            else:
                first = {j: min(max(v, 0.0), 1.0) for j, v in x.items()}
                second = {j: 1 / self.tau1 if 0 < v <= 1 else 0.0 for j, v in x.items()}
                third = dict.fromkeys(x, 0.0)
            slope = (self.k + 0.5) / row.size + self.tau2 * (threshold - centre)
            slope -= sum(weights[j] * first[j] for j in weights)
            return slope, self.tau2 + sum(weights[j] * second[j] for j in weights), second, third

        slope, bend, second, third = at(row.scores, lam)
        slope_then = bend_then = None
        if past is not None:
            slope_then, bend_then, second_then, _ = at(past.scores, earlier)
        dz = ds = 0.0
        if move is not None:
            shift = {j: move.scores[j] - (lam - earlier) for j in weights}
            dz = self.tau2 * (lam - earlier) - sum(weights[j] * second[j] * shift[j] for j in weights)
            ds = sum(weights[j] * third[j] * shift[j] for j in weights)
        self.track(self.z, q, slope, slope_then, dz, share, self.gamma_s)
        s_then = self.track(self.s, q, bend, bend_then, ds, share, self.gamma_s)
        self.guard(self.s, q, self.tau2, 1)
        moved = self.rate * self.eta() * self.z[q]
        if self.step == "newton":
            reach = abs(own - lam) + self.tau1
            moved = max(min(moved / self.s[q], reach), -reach)
        self.used[q], self.lam[q] = lam, lam - moved
        by = bend if self.implicit == "slate" else self.s[q]
        found = [(lam, {j: weights[j] * second[j] / by for j in weights}), None]
        if past is not None:
            by = bend_then if self.implicit == "slate" else s_then
            found[1] = earlier, {j: weights[j] * second_then[j] / by for j in weights}
        return found


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
    shared = {"margin": oracle.margin, "rank_offset": oracle.offset, "dtype": dtype, "memory": oracle.memory}
    if oracle.k is None:
        return FasterSONG(PAIRS, QUERIES, BATCH, gamma, **shared)
    names = {
        "step": "threshold_step",
        "rate": "threshold_rate",
        "gamma_s": "threshold_gamma",
        "scale": "selector_scale",
    }
    names |= {name: name for name in ("mode", "implicit", "tau1", "tau2", "smoothing")}
    options = {name: getattr(oracle, own) for own, name in names.items()}
    return FasterKSONG(PAIRS, ROWS, oracle.k, BATCH, gamma, active_queries=QUERIES, **shared, **options)


def same(found, expected):
    torch.testing.assert_close(found, torch.as_tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-11)


def same_tables(loss, oracle):
    tables = {"u": oracle.u}
    if oracle.k is not None:
        tables |= {"threshold": oracle.lam, "curvature": oracle.s, "slope": oracle.z, "centre": oracle.c}
    for name, rows in tables.items():
        table = loss.table(name)
        expected = torch.tensor([rows.get(row, torch.nan) for row in range(table.num_rows)], dtype=torch.float64)
        torch.testing.assert_close(table.read(), expected, rtol=1e-9, atol=1e-11, equal_nan=True)
    assert loss.guarded.tolist() == oracle.guarded[: loss.guarded.numel()]


CASES = [
    {},
    {"gamma": (20.0, 0.05)},
    {"margin": 2.0, "gamma": 0.4},
    {"k": 3},
    {"k": 3, "gamma": (20.0, 0.05), "step": "newton"},
    {"k": 5, "implicit": "slate", "step": "newton", "mode": "theoretical"},
    {"k": 3, "mode": "practical"},
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


def test_without_another_point_faster_song_is_song():
    plain, faster = SONG(PAIRS, 0.3, dtype=torch.float64), FasterSONG(PAIRS, QUERIES, BATCH, 0.3, dtype=torch.float64)
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
        ({"gamma": 1.0}, "gamma is 1.0"),
        ({"memory": "sarah"}, "memory is 'sarah'"),
        ({"queries_per_batch": 0}, "at least"),
    ],
)
def test_a_wrong_option_is_named(options, words):
    with pytest.raises(ValueError, match=words):
        FasterSONG(**{"num_pairs": 4, "num_queries": 3, "queries_per_batch": 2, **options})


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
