"""The paper's last algorithm in plain float64 loops, for the tests of the faster losses."""

import math
from dataclasses import dataclass, field

from tests.oracles.memory_losses import list_weights, outer, rank_weights, rows_of, selector, surrogate

BATCH, QUERIES = 4, 12
LOGS = ("exponential", "tanh", "atan", "relu")


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
    lagged: bool = False
    earlier: str = "memory"
    rate: float = 0.3
    tau1: float = 0.4
    tau2: float = 0.01
    smoothing: str = "softplus"
    inner: str = "squared_hinge"
    margin: float = 1.0
    temperature: float = 1.0
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

    def surrogate(self, x):
        return surrogate(self.inner, x, self.margin, self.temperature)

    def eta(self):
        return (self.gamma[0] / (self.gamma[0] + self.t)) ** (1 / 3) if isinstance(self.gamma, tuple) else 1.0

    def rate_of(self, share, gamma):
        return min(0.5, self.gamma[1] * self.eta() ** 2 / share) if isinstance(self.gamma, tuple) else gamma

    def track(self, table, key, now, then, change, share, gamma):
        """Moves a row on; returns its value before."""
        gamma = self.rate_of(share, gamma)
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
                sum(w * self.surrogate(p.scores[j] - p.scores[i])[0] for j, w in weights.items()) for p, _ in points
            ]
            moved = 0.0
            if move is not None:
                for j, w in weights.items():
                    slope = self.surrogate(row.scores[j] - row.scores[i])[1]
                    moved += w * slope * (move.scores[j] - move.scores[i])
            drawn = share * min(1.0, len(row.pairs) / row.total)
            known = estimates[1] if past is not None else None
            old = self.track(self.u, pair, estimates[0], known, moved, drawn, self.gamma)
            floors = [self.surrogate(0.0)[0] / row.size] * 2
            if self.inner in LOGS:  # u ≥ γ ĝ, as for a moving average
                floors = [max(floors[0], self.rate_of(drawn, self.gamma) * estimate) for estimate in estimates]
            self.guard(self.u, pair, floors[0], 0)
            u_then = old
            if self.earlier == "corrected" and past is not None and not self.lagged:
                u_then = max(self.u[pair] - (estimates[0] - estimates[1]), floors[1])
            for (point, gradient), u, chosen in zip(
                points, (old if self.lagged else self.u[pair], u_then), choice, strict=False
            ):
                added = self.add_gradient(point, i, u, chosen, weights, gradient)
                value += added if point is row else 0.0
        return value

    def add_gradient(self, point, i, u, chosen, weights, gradient):
        f, slope = outer(max(u, self.surrogate(0.0)[0] / point.size), point.labels[i], point, self.offset)
        share = point.share * point.total / len(point.pairs)
        psi, psi_slope = 1.0, 0.0
        if chosen is not None:
            psi, psi_slope = selector("sigmoid", point.scores[i] - chosen[0], self.scale)
        for j, w in weights.items():
            push = share * psi * slope * w * self.surrogate(point.scores[j] - point.scores[i])[1]
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
        before = self.lagged or self.implicit == "memory_before"
        s_now = max(s_then, self.tau2) if before else self.s[q]
        by = bend if self.implicit == "slate" else s_now
        found = [(lam, {j: weights[j] * second[j] / by for j in weights}), None]
        if past is not None:
            if self.earlier == "corrected" and not self.lagged:
                s_then = max(self.s[q] - (bend - bend_then), self.tau2)
            by = bend_then if self.implicit == "slate" else s_then
            found[1] = earlier, {j: weights[j] * second_then[j] / by for j in weights}
        return found
