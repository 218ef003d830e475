"""The paper's estimators, written once more as plain float64 loops over queries, items and pairs.

Nothing here calls songrank's formulas: a test compares two writings of the same mathematics.
"""

import math
from dataclasses import dataclass, field

from songrank import Slate


def surrogate(name: str, x: float, margin: float, temperature: float = 1.0) -> tuple[float, float]:
    """(ℓ(x), ℓ′(x))."""
    if name == "exponential":
        value = math.exp(x / temperature)
        return value, value / temperature
    if name in ("tanh", "atan", "relu"):
        bases = {
            "tanh": (1 + math.tanh(x), 1 - math.tanh(x) ** 2),
            "atan": (1 + math.atan(x), 1 / (1 + x * x)),
            "relu": (1 + x, 1.0),
        }
        base, slope = bases[name]
        power = 1 / temperature
        return (base**power, power * base ** (power - 1) * slope) if base > 0 else (0.0, 0.0)
    if name == "squared_hinge":
        t = max(0.0, x + margin)
        return t * t, 2 * t
    if name == "smooth_hinge":
        t = max(0.0, x + margin)
        return (t * t / 2, t) if t < 1 else (t - 0.5, 1.0)
    value = 1 / (1 + math.exp(-x))
    if name == "logistic":
        return math.log1p(math.exp(x)) / math.log(2), value / math.log(2)
    return value, value * (1 - value)


def selector(name: str, x: float, scale: float) -> tuple[float, float]:
    """(ψ(x), ψ′(x))."""
    if name == "sigmoid":
        value = 0.5 * (1 + math.tanh(scale * x / 2))
        return value, scale * value * (1 - value)
    t = min(max(scale * x, 0.0), 1.0)
    return 3 * t**2 - 2 * t**3, scale * (6 * t - 6 * t**2)


@dataclass
class Row:
    """One query of a slate, as plain numbers."""

    query: int
    scores: list[float]
    labels: list[float]
    present: list[int]
    pairs: list[tuple[int, int]]
    size: int
    total: int
    ideal: float
    share: float
    weight: list[float] | None

    @property
    def relevant(self) -> list[int]:
        return [j for j in self.present if self.labels[j] > 0]

    @property
    def irrelevant(self) -> list[int]:
        return [j for j in self.present if self.labels[j] <= 0]


def rows_of(scores, slate: Slate) -> list[Row]:
    weights = [1.0] * scores.shape[0] if slate.row_weight is None else slate.row_weight.tolist()
    mask = slate.mask.expand(slate.label.shape)
    weights = [w if bool(mask[b].any()) else 0.0 for b, w in enumerate(weights)]
    rows = []
    for b, weight in enumerate(weights):
        pairs = [(p, c) for p, c in zip(slate.pair[b].tolist(), slate.column[b].tolist(), strict=True) if p >= 0]
        rows.append(
            Row(
                query=int(slate.query[b]),
                scores=scores[b].tolist(),
                labels=slate.label[b].tolist(),
                present=[j for j in range(scores.shape[1]) if bool(mask[b, j])],
                pairs=pairs,
                size=int(slate.list_size[b]),
                total=int(slate.num_relevant[b]),
                ideal=float(slate.ideal_dcg[b]),
                share=weight / sum(weights),
                weight=None if slate.weight is None else slate.weight[b].tolist(),
            )
        )
    return rows


def rank_weights(row: Row, i: int, estimator: str) -> dict[int, float]:
    """How much each column, i itself included, counts in ĝ_i."""
    if row.weight is not None:
        return {j: row.weight[j] for j in row.present}
    if estimator == "plain":
        return {j: 1 / len(row.present) for j in row.present}
    weights = {i: 1 / row.size}
    others = [j for j in row.relevant if j != i]
    for j in others:
        weights[j] = (row.total - 1) / row.size / len(others)
    for j in row.irrelevant:
        weights[j] = (row.size - row.total) / row.size / len(row.irrelevant)
    return weights


def list_weights(row: Row, estimator: str) -> dict[int, float]:
    if row.weight is not None:
        return {j: row.weight[j] for j in row.present}
    if estimator == "plain":
        return {j: 1 / len(row.present) for j in row.present}
    weights = {j: row.total / row.size / len(row.relevant) for j in row.relevant}
    return weights | {j: (row.size - row.total) / row.size / len(row.irrelevant) for j in row.irrelevant}


def likelihood(u: float, row: Row, factor: float) -> tuple[float, float]:
    """(f(u), f′(u)) of f(u) = factor · ln(N u)."""
    return factor * math.log(row.size * u), factor / u


def outer(u: float, label: float, row: Row, offset: float) -> tuple[float, float]:
    """(f(u), f′(u))."""
    rank = row.size * u + 1 + offset
    gain = 2**label - 1
    log = math.log2(rank)
    return -gain / (row.ideal * log), gain * row.size / (row.ideal * math.log(2) * log**2 * rank)


@dataclass
class SongOracle:
    """Algorithm 1, and with ``k`` Algorithm 2, on dictionaries; ``outer`` and ``rivals`` for the rest of the family."""

    gamma: float
    surrogate: str = "squared_hinge"
    margin: float = 1.0
    temperature: float = 1.0
    outer: str = "ndcg"
    factor: float = 1.0
    rivals: str = "all"
    source: str = "tracked"
    every: int = 5
    offset: float | None = 0.0
    lagged: bool = False
    estimator: str = "strata"
    k: int | None = None
    mode: str = "theoretical"
    form: str = "bilevel"
    selector: str = "sigmoid"
    scale: float = 2.0
    step: str = "newton"
    rate: float = 0.3
    gamma_s: float = 0.3
    implicit: str = "slate"
    epsilon: float = 0.5
    tau1: float = 0.1
    tau2: float = 1e-4
    smoothing: str = "softplus"
    centred: str = "first"
    u: dict[int, float] = field(default_factory=dict)
    lam: dict[int, float] = field(default_factory=dict)
    s: dict[int, float] = field(default_factory=dict)
    c: dict[int, float] = field(default_factory=dict)
    age: dict[int, int] = field(default_factory=dict)

    def __call__(self, scores, slate: Slate) -> tuple[float, list[list[float]]]:
        gradient = [[0.0] * scores.shape[1] for _ in range(scores.shape[0])]
        value = 0.0
        for b, row in enumerate(rows_of(scores, slate)):
            if row.present:
                value += self.one_query(row, gradient[b])
        return value, gradient

    def one_query(self, row: Row, gradient: list[float]) -> float:
        offset = math.sqrt(row.size) if self.offset is None else self.offset
        bilevel = self.k is not None and self.form == "bilevel" and self.k < row.size
        if bilevel:
            lam, implicit = self.threshold(row)
        value = 0.0
        for pair, i in row.pairs:
            weights = rank_weights(row, i, self.estimator)
            if self.rivals == "irrelevant":
                weights = {j: weights[j] for j in row.irrelevant}
            inner_of = self.surrogate, self.margin, self.temperature
            values = {j: surrogate(inner_of[0], row.scores[j] - row.scores[i], *inner_of[1:]) for j in weights}
            estimate = sum(weights[j] * values[j][0] for j in weights) if weights else 1 / row.size
            before = self.u.get(pair, estimate)
            self.u[pair] = (1 - self.gamma) * before + self.gamma * estimate if pair in self.u else estimate
            used = before if self.lagged else self.u[pair]
            lowest = surrogate(inner_of[0], 0.0, *inner_of[1:])[0] / row.size  # an item's own comparison
            f, slope = outer(max(used, lowest), row.labels[i], row, offset)
            if self.outer == "likelihood":
                f, slope = likelihood(used, row, self.factor)
            psi, psi_slope = 1.0, 0.0
            if bilevel:
                psi, psi_slope = selector(self.selector, row.scores[i] - lam, self.scale)
            elif self.k is not None and self.k < row.size:
                psi, psi_slope = selector(self.selector, self.k - row.size * used, self.scale)
            share = row.share * (row.total if self.outer == "ndcg" else 1.0) / len(row.pairs)
            value += share * psi * f
            inner = share * psi * slope
            if self.k is not None and self.form == "rank" and self.mode == "theoretical":
                inner -= share * row.size * psi_slope * f
            for j, weight in weights.items():
                gradient[j] += inner * weight * values[j][1]
                gradient[i] -= inner * weight * values[j][1]
            if bilevel and self.mode == "theoretical":
                gradient[i] += share * psi_slope * f
                for j, derivative in implicit.items():
                    gradient[j] -= share * psi_slope * f * derivative
        return value

    def threshold(self, row: Row) -> tuple[float, dict[int, float]]:
        """λ to use, ∇λ; moves λ, s and the centre on."""
        weights = list_weights(row, self.estimator)
        q = row.query
        total, own = 0.0, 0.0
        for j in sorted(weights, key=lambda j: -row.scores[j]):
            own = row.scores[j]
            total += weights[j] * row.size
            if total >= self.k + self.epsilon:
                break
        lam = self.lam.setdefault(q, own)
        if self.source == "slate":
            lam = own
        if self.source == "periodic":
            self.age[q] = self.age.get(q, 0) + 1
            lam = own if self.age[q] % self.every == 1 or self.every == 1 else lam
        centre = self.c.setdefault(q, lam) if self.centred == "first" else 0.0
        first, second = {}, {}
        for j in weights:
            x = (row.scores[j] - lam) / self.tau1
            if self.smoothing == "softplus":
                first[j] = 1 / (1 + math.exp(-x))
                second[j] = first[j] * (1 - first[j]) / self.tau1
            else:
                first[j] = min(max(x, 0.0), 1.0)
                second[j] = 1 / self.tau1 if 0 < x <= 1 else 0.0
        bend = self.tau2 + sum(weights[j] * second[j] for j in weights)
        before = self.s.get(q, bend)
        self.s[q] = (1 - self.gamma_s) * self.s[q] + self.gamma_s * bend if q in self.s else bend
        slope = (self.k + self.epsilon) / row.size + self.tau2 * (lam - centre)
        slope -= sum(weights[j] * first[j] for j in weights)
        move = self.rate * slope
        if self.step == "newton":
            reach = abs(own - lam) + self.tau1
            move = max(min(move / self.s[q], reach), -reach)
        self.lam[q] = lam - move if self.source == "tracked" else lam
        divisor = {"slate": bend, "memory": self.s[q]}.get(self.implicit, before)
        slopes = {j: weights[j] * second[j] / divisor for j in weights}
        if self.implicit == "regression":  # what is missing to a sum of 1 goes to the items around λ
            around = {j: weights[j] / math.cosh((row.scores[j] - lam) / (8 * self.tau1)) ** 2 for j in weights}
            missing = 1 - sum(slopes.values())
            slopes = {j: slopes[j] + missing * around[j] / sum(around.values()) for j in weights}
        return lam, slopes


@dataclass
class SolcOracle:
    """Algorithm 3 with the factor exp(h_j − h_i) that the paper drops."""

    gamma: float
    estimator: str = "strata"
    u: dict[int, float] = field(default_factory=dict)

    def __call__(self, scores, slate: Slate) -> tuple[float, list[list[float]]]:
        gradient = [[0.0] * scores.shape[1] for _ in range(scores.shape[0])]
        value = 0.0
        for b, row in enumerate(rows_of(scores, slate)):
            for pair, i in row.pairs:
                weights = rank_weights(row, i, self.estimator)
                terms = {j: weights[j] * math.exp(row.scores[j] - row.scores[i]) for j in weights}
                estimate = sum(terms.values())
                before = self.u.get(pair)
                self.u[pair] = estimate if before is None else (1 - self.gamma) * before + self.gamma * estimate
                share = row.share / len(row.pairs)
                value += share * math.log(row.size * self.u[pair])
                for j, term in terms.items():
                    gradient[b][j] += share * term / self.u[pair]
                    gradient[b][i] -= share * term / self.u[pair]
        return value, gradient
