"""The selector of top-K losses: ψ(h_i − λ_q), where λ_q tracks the (K+1)-th largest score of the query's list."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from songrank.core.checks import check_choice, check_int, check_number
from songrank.core.slate import Slate
from songrank.functional.selection import select
from songrank.functional.strata import list_counts, list_weights, slate_lists
from songrank.functional.threshold import ThresholdProblem, weighted_threshold
from songrank.losses.base import Rows
from songrank.losses.memory import UNSEEN, MemoryTable, moving_average, seen
from songrank.losses.smooth_rank import Selection, SmoothRankLoss, Terms

MODES = ("theoretical", "practical")
SOURCES = ("tracked", "slate", "periodic")


@dataclass(frozen=True)
class ThresholdOptions:
    """How λ follows the (K+1)-th largest score, with the constants of :class:`songrank.functional.ThresholdProblem`.

    Args:
        rate: step size of λ: η₀, or τ in the faster losses.
        gamma: γ′ of s; in the faster losses of s and z, unless their ``gamma`` is a schedule.
        epsilon: ε of L_q, in (0, 1).
        tau1: τ₁ of L_q, temperature of φ, in units of the scores.
        tau2: τ₂ of L_q, strong convexity.
        source: where λ comes from: ``"tracked"``, by steps on L_q, as in the paper; ``"slate"``, the slate's own
            weighted (K+1)-th largest score in each step, exact on whole lists; ``"periodic"``, that score at every
            ``every``-th visit of the query, constant in between, as in SL@K.
        every: number of visits of a query between two estimates with ``"periodic"``.

    >>> ThresholdOptions(tau1=0.3).rate
    0.3
    """

    rate: float = 0.3
    gamma: float = 0.3
    epsilon: float = 0.5
    tau1: float = 0.1
    tau2: float = 1e-4
    source: str = "tracked"
    every: int = 5

    def __post_init__(self) -> None:
        check_number("rate", self.rate, 0.0, low_open=True)
        check_number("gamma", self.gamma, 0.0, 1.0, low_open=True)
        check_choice("source", self.source, SOURCES)
        check_int("every", self.every)
        self.problem(1, "softplus")

    def problem(self, k: int, smoothing: str) -> ThresholdProblem:
        """L_q for this K."""
        return ThresholdProblem(k, self.epsilon, self.tau1, self.tau2, smoothing)


THRESHOLD = ThresholdOptions()
_BROADER = 4.0
"""Temperature, in τ₁, of the items around λ to which the regression estimate of ∇λ gives what is missing."""


class TopK(SmoothRankLoss):
    """Adds the selector ψ, with the thresholds λ of the queries in memory, to a loss of smooth ranks."""

    mode: str
    selector: str
    selector_scale: float
    tracking: ThresholdOptions
    problem: ThresholdProblem
    threshold: MemoryTable
    curvature: MemoryTable
    centre: MemoryTable

    def _set_up_selector(
        self,
        k: int,
        mode: str,
        selector: str,
        selector_scale: float,
        threshold: ThresholdOptions,
        num_queries: int,
        query_range: tuple[int, int] | None,
        dtype: torch.dtype,
    ) -> None:
        """Set the options and register the tables of the queries."""
        self.mode, self.selector, self.selector_scale = mode, selector, selector_scale
        self.tracking = threshold
        self.problem = threshold.problem(k, self.form.smoothing)
        self.k = self.problem.k
        if threshold.source == "periodic":
            self.by_query = (*self.by_query, "visits")
        for name in self.by_query:
            self.register_module(name, MemoryTable(num_queries, query_range, dtype=dtype, name="queries"))

    @property
    def estimates(self) -> tuple[str, ...]:
        """u, and λ if the selection uses it."""
        return (*self.by_pair, "threshold") if self.form.selection == "bilevel" else self.by_pair

    def _evaluate(self, terms: Terms, u: Tensor, selection: Selection, slate: Slate) -> tuple[Tensor, Tensor]:
        share = self.outer.share(slate, u.dtype)
        value, slope = self.outer.terms(u, slate, self.surrogate)
        total = (selection.of(share) * value).sum()
        assert selection.psi is not None
        assert selection.slope is not None
        along = selection.psi * (share * slope)
        if self.mode == "practical":
            return total, terms.gradient(along, u)
        if selection.cross is None or selection.divisor is None:  # ψ of the rank
            size = list_counts(slate, u.dtype)[0].unsqueeze(1)
            if self.surrogate.in_logs:
                size = torch.where(selection.slope > 0, size * torch.exp(u), 0.0)
            return total, terms.gradient(along - size * selection.slope * (share * value), u)
        pull = selection.slope * (share * value)
        gradient = terms.gradient(along, u).scatter_add_(1, slate.column, pull)
        return total, gradient.addcmul_(selection.cross, (pull.sum(-1) / selection.divisor).unsqueeze(1), value=-1.0)

    def _select(self, h: Tensor, u: Tensor, slate: Slate, rows: Rows) -> Selection:
        """ψ and ψ′ of the slate's relevant items, with the updated thresholds."""
        size, _ = list_counts(slate, h.dtype)
        if self.form.selection == "rank":
            kept = {name: rows[name] for name in self.by_query}
            mean = torch.exp(u) if self.surrogate.in_logs else u
            return self._selection(self.problem.k - size.unsqueeze(1) * mean, size, rows=kept)
        visit = Visit(self, h, size, slate, rows)
        slope, cross = self.problem.derivatives(visit.threshold, h, visit.weight, size, visit.centre)
        bend = self.problem.tau2 + cross.sum(-1)
        remembered = rows["curvature"].to(h.dtype)
        curvature = moving_average(remembered, bend, self.tracking.gamma)
        smallest = torch.finfo(h.dtype).tiny
        step = self.tracking.rate * slope
        if self.form.threshold_step == "newton":
            step = visit.within_reach(step / curvature.clamp_min(smallest))
        moved = {"threshold": visit.moved_by(step), "curvature": curvature, "centre": visit.centre}
        if visit.count is not None:
            moved["visits"] = visit.count
        divisor = bend if self.form.implicit == "slate" else curvature
        if self.form.implicit in ("memory_before", "regression"):
            divisor = torch.where(seen(remembered), remembered, bend)
        if self.form.implicit == "regression":
            broad = replace(self.problem, tau1=_BROADER * self.problem.tau1)
            around = broad.cross_curvature(visit.threshold, h, visit.weight)
            around = around / around.sum(-1, keepdim=True).clamp_min(smallest)
            cross = cross + (divisor - cross.sum(-1)).unsqueeze(1) * around
        lead = h.gather(1, slate.column) - visit.threshold.unsqueeze(1)
        after = self._after(moved, size, slate, rows)
        return self._selection(lead, size, cross, divisor.clamp_min(smallest), after)

    def _selection(
        self,
        lead: Tensor,
        size: Tensor,
        cross: Tensor | None = None,
        divisor: Tensor | None = None,
        rows: Rows | None = None,
    ) -> Selection:
        """ψ and ψ′ of ``lead`` [B, P]; 1 and 0 where K ≥ N."""
        psi, slope = select(lead, self.selector, self.selector_scale)
        everything = (self.problem.k >= size).unsqueeze(1)
        psi = torch.where(everything, torch.ones_like(psi), psi)
        slope = torch.where(everything, torch.zeros_like(slope), slope)
        return Selection(psi, slope, cross, divisor, rows or {})

    def _after(self, moved: Rows, size: Tensor, slate: Slate, rows: Rows) -> Rows:
        """The updated rows, except for queries with K ≥ N and where the new λ is not finite."""
        chosen = (self.problem.k < size) & slate.rows_present & torch.isfinite(moved["threshold"])
        return {name: torch.where(chosen, value, rows[name].to(value.dtype)) for name, value in moved.items()}


class Visit:
    """The queries of a step: weights over the slate [B, L], λ and its centre [B].

    The slate's own λ, its weighted (K+1)-th largest score, requires a sort. A CPU sorts only the rows that need it; a
    GPU sorts all, since their number would have to be synchronised.
    """

    count: Tensor | None = None
    """[B]: with a periodic λ, number of visits since its last estimate, this one included."""

    def __init__(self, loss: TopK, h: Tensor, size: Tensor, slate: Slate, rows: Rows) -> None:
        self.h, self.size, self.problem = h, size, loss.problem
        self.tracked = loss.tracking.source == "tracked"
        self.weight = list_weights(**slate_lists(slate, h.dtype), estimator=loss.form.estimator)
        picky = h.device.type == "cpu" and not torch.compiler.is_compiling()
        self.everywhere = None if picky else self._own(h, self.weight, size)
        stored = rows["threshold"].to(h.dtype)
        if loss.tracking.source == "slate":
            stored = torch.full_like(stored, UNSEEN)
        elif loss.tracking.source == "periodic":
            visits = rows["visits"].to(h.dtype)
            renewed = ~seen(visits) | (visits >= loss.tracking.every)
            self.count = torch.where(renewed, torch.ones_like(visits), visits + 1.0)
            stored = torch.where(renewed, UNSEEN, stored)
        self.threshold = self._own_where(~seen(stored), stored)
        kept = rows["centre"].to(h.dtype)
        first = loss.form.centre == "first"
        self.centre = torch.where(seen(kept), kept, self.threshold) if first else torch.zeros_like(self.threshold)

    def moved_by(self, step: Tensor) -> Tensor:
        """λ after this visit: a step further where it is tracked; NaN if the step is not finite."""
        return self.threshold - (step if self.tracked else 0.0 * step)

    def within_reach(self, step: Tensor) -> Tensor:
        """The step, limited to τ₁ more than the distance to the slate's own λ."""
        if not self.tracked:
            return step
        far = step.abs() > self.problem.tau1
        reach = (self._own_where(far, self.threshold) - self.threshold).abs() + self.problem.tau1
        return torch.maximum(torch.minimum(step, reach), -reach)

    def _own_where(self, wanted: Tensor, otherwise: Tensor) -> Tensor:
        """[B]: the slate's own λ where ``wanted``, else ``otherwise``."""
        if self.everywhere is not None:
            return torch.where(wanted, self.everywhere, otherwise)
        rows = wanted.nonzero().squeeze(1)
        if rows.numel() == 0:
            return otherwise
        return otherwise.index_copy(0, rows, self._own(self.h[rows], self.weight[rows], self.size[rows]))

    def _own(self, h: Tensor, weight: Tensor, size: Tensor) -> Tensor:
        return weighted_threshold(h, weight * size.unsqueeze(1), self.problem.k, self.problem.epsilon)
