"""K-SONG: stochastic optimisation of top-K NDCG (Algorithm 2 of the paper)."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from songrank.core.checks import check_number
from songrank.core.options import Annotated, Choice, checked
from songrank.core.slate import Slate
from songrank.functional.rank_terms import RankTerms
from songrank.functional.selection import SELECTORS, select
from songrank.functional.strata import list_counts, list_weights, slate_lists
from songrank.functional.threshold import ThresholdProblem, weighted_threshold
from songrank.losses.base import Count, Gamma, NotNegative, Positive, Rows, SurrogateName
from songrank.losses.memory import MemoryTable, moving_average, seen
from songrank.losses.paper_form import SHIPPED, PaperForm
from songrank.losses.registry import register
from songrank.losses.song import SONG, Selection


@dataclass(frozen=True)
class ThresholdOptions:
    """Constants of the threshold problem (:class:`songrank.functional.ThresholdProblem`) and of tracking λ.

    Args:
        rate: step size of λ: η₀, or τ in the faster losses.
        gamma: γ′ of s; in the faster losses of s and z, unless their ``gamma`` is a schedule.
        epsilon: ε of L_q, in (0, 1).
        tau1: τ₁ of L_q, temperature of φ.
        tau2: τ₂ of L_q, strong convexity.

    >>> ThresholdOptions(tau1=0.3).rate
    0.3
    """

    rate: float = 0.3
    gamma: float = 0.3
    epsilon: float = 0.5
    tau1: float = 0.1
    tau2: float = 1e-4

    def __post_init__(self) -> None:
        check_number("rate", self.rate, 0.0, low_open=True)
        check_number("gamma", self.gamma, 0.0, 1.0, low_open=True)
        self.problem(1, "softplus")

    def problem(self, k: int, smoothing: str) -> ThresholdProblem:
        """L_q for this K."""
        return ThresholdProblem(k, self.epsilon, self.tau1, self.tau2, smoothing)


THRESHOLD = ThresholdOptions()
MODES = ("theoretical", "practical")


@register("k-song")
class KSONG(SONG):
    r"""Top-K NDCG as a loss: Algorithm 2, with u per relevant pair, a threshold λ and a curvature s per query.

    λ_q tracks the (K+1)-th largest score of the query's full list, the minimiser of L_q (``functional.threshold``):

        F_K = mean_q Σ_i ψ(h_i − λ_q) f(u_i),     f with Z_q^K
        G   = Σ_i ψ f′(u_i) ∇ĝ_i  +  ψ′ f(u_i) (∇h_i − ∇λ_q),      ∇λ_q = Σ_j w_j φ″(h_j − λ_q) ∇h_j / H_q      (eq. 5)

    ``mode="practical"`` omits the second term (eq. 6). A step uses the stored λ, at a query's first visit the weighted
    (K+1)-th largest score of the slate; H = ∇²_λ L on the slate; s ← H at the first visit, else (1 − γ′)s + γ′H; then
    λ is updated. Where K ≥ N_q, ψ = 1 and λ is constant. ∇λ is divided by H, not by s (``form.implicit``): a stale s
    makes G move all scores of a query together, which degrades rankings (docs/experiments/defaults.md).

    Other options are those of :class:`SONG` and :class:`MemoryLoss`.

    Args:
        num_pairs: upper bound of the row ids in ``slate.pair`` (0 … num_pairs − 1), usually ``relevance.num_pairs``.
        num_queries: upper bound of the ids in ``slate.query`` (0 … num_queries − 1), ``relevance.num_queries``.
        k: K; slates must have the same k.
        mode: ``"theoretical"`` (eq. 5) or ``"practical"`` (eq. 6).
        selector: ψ: ``"sigmoid"`` or ``"smooth_step"`` (``functional.selection``).
        selector_scale: α of ψ.
        threshold: :class:`ThresholdOptions`.

    >>> from songrank import KSONG, Relevance, SlateSampler
    >>> relevance = Relevance.from_pairs(query=[0, 0, 1], item=[2, 5, 3], num_items=8)
    >>> model = torch.nn.Embedding(relevance.num_queries, relevance.num_items)
    >>> optimiser = torch.optim.Adam(model.parameters())
    >>> loss = KSONG(relevance.num_pairs, relevance.num_queries, k=2)
    >>> for slate in SlateSampler(relevance, queries_per_batch=2, relevant=2, irrelevant=3, k=2):
    ...     optimiser.zero_grad()
    ...     loss(model(slate.query).gather(1, slate.item), slate).backward()
    ...     optimiser.step()
    >>> loss.threshold.read().isfinite()
    tensor([True, True])
    """

    traits = replace(
        SONG.traits, objective="estimated top-K NDCG of the slates", search={**SONG.traits.search, "k": "cutoff"}
    )
    by_query: tuple[str, ...] = ("threshold", "curvature", "centre")
    switches: tuple[str, ...] = (*SONG.switches, "selection", "implicit", "threshold_step", "centre", "smoothing")
    threshold: MemoryTable
    curvature: MemoryTable
    centre: MemoryTable

    @checked
    def __init__(
        self,
        num_pairs: int,
        num_queries: int,
        k: Count,
        gamma: Gamma = 0.1,
        mode: Annotated[str, Choice(MODES)] = "theoretical",
        rank_offset: NotNegative | None = None,
        *,
        surrogate: SurrogateName = "squared_hinge",
        margin: float = 1.0,
        selector: Annotated[str, Choice(SELECTORS)] = "sigmoid",
        selector_scale: Positive = 2.0,
        threshold: ThresholdOptions = THRESHOLD,
        form: Literal["paper"] | PaperForm = SHIPPED,
        pair_range: tuple[int, int] | None = None,
        query_range: tuple[int, int] | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
    ) -> None:
        own = (num_pairs, gamma, surrogate, margin, rank_offset)
        super().__init__(*own, form=form, pair_range=pair_range, dtype=dtype, validate=validate)
        self.mode, self.selector, self.selector_scale = mode, selector, selector_scale
        self.tracking = threshold
        self.problem = threshold.problem(k, self.form.smoothing)
        self.k = self.problem.k
        for name in self.by_query:
            self.register_module(name, MemoryTable(num_queries, query_range, dtype=dtype, name="queries"))

    @property
    def estimates(self) -> tuple[str, ...]:
        """u, and λ if the selection uses it."""
        return (*self.by_pair, "threshold") if self.form.selection == "bilevel" else self.by_pair

    def _evaluate(self, terms: RankTerms, u: Tensor, selection: Selection, slate: Slate) -> tuple[Tensor, Tensor]:
        share = self._pair_share(slate, u.dtype)
        value, slope = self._ndcg(u, slate)
        total = (selection.of(share) * value).sum()
        assert selection.psi is not None
        assert selection.slope is not None
        along = selection.psi * (share * slope)
        if self.mode == "practical":
            return total, terms.gradient(along)
        if selection.cross is None or selection.divisor is None:  # ψ of the rank
            size = list_counts(slate, u.dtype)[0].unsqueeze(1)
            return total, terms.gradient(along - size * selection.slope * (share * value))
        pull = selection.slope * (share * value)
        gradient = terms.gradient(along).scatter_add_(1, slate.column, pull)
        return total, gradient.addcmul_(selection.cross, (pull.sum(-1) / selection.divisor).unsqueeze(1), value=-1.0)

    def _select(self, h: Tensor, u: Tensor, slate: Slate, rows: Rows) -> Selection:
        """ψ and ψ′ of the slate's relevant items, with the updated thresholds."""
        size, _ = list_counts(slate, h.dtype)
        if self.form.selection == "rank":
            kept = {name: rows[name] for name in self.by_query}
            return self._selection(self.problem.k - size.unsqueeze(1) * u, size, rows=kept)
        visit = Visit(self, h, size, slate, rows)
        slope, cross = self.problem.derivatives(visit.threshold, h, visit.weight, size, visit.centre)
        bend = self.problem.tau2 + cross.sum(-1)
        remembered = rows["curvature"].to(h.dtype)
        curvature = moving_average(remembered, bend, self.tracking.gamma)
        smallest = torch.finfo(h.dtype).tiny
        step = self.tracking.rate * slope
        if self.form.threshold_step == "newton":
            step = visit.within_reach(step / curvature.clamp_min(smallest))
        moved = {"threshold": visit.threshold - step, "curvature": curvature, "centre": visit.centre}
        divisor = bend if self.form.implicit == "slate" else curvature
        if self.form.implicit == "memory_before":
            divisor = torch.where(seen(remembered), remembered, bend)
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

    def __init__(self, loss: KSONG, h: Tensor, size: Tensor, slate: Slate, rows: Rows) -> None:
        self.h, self.size, self.problem = h, size, loss.problem
        self.weight = list_weights(**slate_lists(slate, h.dtype), estimator=loss.form.estimator)
        picky = h.device.type == "cpu" and not torch.compiler.is_compiling()
        self.everywhere = None if picky else self._own(h, self.weight, size)
        stored = rows["threshold"].to(h.dtype)
        self.threshold = self._own_where(~seen(stored), stored)
        kept = rows["centre"].to(h.dtype)
        first = loss.form.centre == "first"
        self.centre = torch.where(seen(kept), kept, self.threshold) if first else torch.zeros_like(self.threshold)

    def within_reach(self, step: Tensor) -> Tensor:
        """The step, limited to τ₁ more than the distance to the slate's own λ."""
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
