"""K-SONG: stochastic optimisation of top-K NDCG (Algorithm 2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from songrank.core.checks import check_choice, check_int, check_number
from songrank.core.slate import Slate
from songrank.functional.selection import select
from songrank.functional.strata import list_weights
from songrank.functional.threshold import ThresholdProblem, weighted_threshold
from songrank.losses.base import Rows, attach_gradient, list_counts, own_weights, present_scores
from songrank.losses.memory import MemoryTable, moving_average, seen
from songrank.losses.rank_terms import RankTerms
from songrank.losses.registry import register
from songrank.losses.song import SONG


@dataclass(frozen=True)
class _Selection:
    """ψ and ψ′ of each relevant item [B, P], ∇λ = cross [B, L] / divisor [B], and the queries' rows after."""

    psi: Tensor
    slope: Tensor
    cross: Tensor | None
    divisor: Tensor | None
    rows: Rows


@register("k-song")
class KSONG(SONG):
    r"""Top-K NDCG as a loss: Algorithm 2, with u per relevant pair, and a threshold λ and curvature s per query.

    λ_q tracks the (K+1)-th largest score of the query's full list, the minimiser of L_q (``functional.threshold``):

        F_K = mean_q Σ_i ψ(h_i − λ_q) f(u_i),     f with Z_q^K
        G   = Σ_i ψ f′(u_i) ∇ĝ_i  +  ψ′ f(u_i) (∇h_i − ∇λ_q),      ∇λ_q = Σ_j w_j φ″(h_j − λ_q) ∇h_j / H_q      (eq. 5)

    ``mode="practical"`` leaves the second term out (eq. 6). In a step, with λ as stored (at a query's first visit: the
    weighted (K+1)-th largest score of the slate): H = ∇²_λ L on the slate; s ← H at the first visit, else
    (1 − γ′)s + γ′H; G uses the stored λ; then λ moves. Where K ≥ N_q there is nothing to select: ψ = 1 and λ is not
    touched. ∇λ is divided by H rather than by s (``implicit``): an s that lags behind leaves G with a part that moves
    all scores of a query together, which is worth nothing to its ranking and was seen to ruin it (docs/defaults.md).

    Args:
        num_pairs: relevant pairs of the task.
        num_queries: queries of the task.
        k: K; the slates must be made for the same k.
        gamma: γ of u.
        mode: ``"theoretical"`` (eq. 5) or ``"practical"`` (eq. 6).
        rank_offset: as for :class:`SONG`.
        selector: ψ: ``"sigmoid"`` or ``"smooth_step"`` (``functional.selection``).
        selector_scale: α of ψ.
        form: ``"bilevel"`` (the paper's), or ``"rank"``: ψ(K − N u_i), the earlier form that the paper compares with.
        threshold_step: ``"newton"``: λ ← λ − η₀ ∇_λL / s, by at most τ₁ more than to the slate's own (K+1)-th largest
            score, since s can be as small as τ₂; or ``"gradient"``: λ ← λ − η₀ ∇_λL, the paper's.
        threshold_rate: η₀.
        threshold_gamma: γ′ of s.
        implicit: what ∇λ is divided by: ``"slate"``, this slate's H; or ``"memory"``, s, as eq. 5 is written.
        epsilon: ε of L_q.
        tau1: τ₁ of L_q.
        tau2: τ₂ of L_q.
        smoothing: ``"softplus"`` (φ) or ``"hinge"`` (κ).
        centre: of τ₂'s term: ``"first"``, each query's first λ, so that shifting all scores changes nothing; or
            ``"zero"``, the paper's.
        query_range: the queries held here, ``relevance.query_range``.
        surrogate, margin, lagged, estimator, pair_range, dtype, validate: as for :class:`SONG`.

    >>> from songrank import KSONG, Slate
    >>> slate = Slate.from_batch(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([0]), torch.tensor([[0, -1, -1]]), k=1)
    >>> loss = KSONG(num_pairs=1, num_queries=1, k=1)
    >>> value = loss(torch.tensor([[0.0, 1.0, -3.0]], requires_grad=True), slate)
    >>> bool(loss.threshold.read().isfinite())
    True

    """

    traits = replace(
        SONG.traits,
        objective="estimated top-K NDCG of the slates",
        search={**SONG.traits.search, "k": "cutoff"},
    )
    by_query: tuple[str, ...] = ("threshold", "curvature", "centre")

    def __init__(
        self,
        num_pairs: int,
        num_queries: int,
        k: int,
        gamma: float = 0.1,
        mode: str = "theoretical",
        rank_offset: float | None = None,
        *,
        surrogate: str = "squared_hinge",
        margin: float = 1.0,
        selector: str = "sigmoid",
        selector_scale: float = 2.0,
        form: str = "bilevel",
        threshold_step: str = "newton",
        threshold_rate: float = 0.3,
        threshold_gamma: float = 0.3,
        implicit: str = "slate",
        epsilon: float = 0.5,
        tau1: float = 0.1,
        tau2: float = 1e-4,
        smoothing: str = "softplus",
        centre: str = "first",
        lagged: bool = False,
        estimator: str = "strata",
        pair_range: tuple[int, int] | None = None,
        query_range: tuple[int, int] | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
    ) -> None:
        super().__init__(
            num_pairs,
            gamma,
            surrogate,
            margin,
            rank_offset,
            lagged=lagged,
            estimator=estimator,
            pair_range=pair_range,
            dtype=dtype,
            validate=validate,
        )

        self.mode = check_choice("mode", mode, ("theoretical", "practical"))
        self.form = check_choice("form", form, ("bilevel", "rank"))
        self.selector = check_choice("selector", selector, ("sigmoid", "smooth_step"))
        self.selector_scale = check_number("selector_scale", selector_scale, 0.0, low_open=True)
        self.threshold_step = check_choice("threshold_step", threshold_step, ("newton", "gradient"))
        self.threshold_rate = check_number("threshold_rate", threshold_rate, 0.0, low_open=True)
        self.threshold_gamma = check_number("threshold_gamma", threshold_gamma, 0.0, 1.0, low_open=True)
        self.implicit = check_choice("implicit", implicit, ("slate", "memory"))
        self.problem = ThresholdProblem(check_int("k", k), epsilon, tau1, tau2, smoothing)
        self.k = self.problem.k
        self.centred = check_choice("centre", centre, ("first", "zero"))
        self.threshold = MemoryTable(num_queries, query_range, dtype=dtype, name="queries")
        self.curvature = MemoryTable(num_queries, query_range, dtype=dtype, name="queries")
        self.centre = MemoryTable(num_queries, query_range, dtype=dtype, name="queries")

    def step(self, scores: Tensor, slate: Slate, rows: Rows) -> tuple[Tensor, Rows]:
        """Pure: the loss, the new u of this slate's pairs, and the new λ, s and centre of its queries."""
        h = present_scores(scores, slate, self._working_type(scores))
        with torch.no_grad():
            terms, old, new = self._ranks(h.detach(), slate, rows)
            used = self._in_use(old, new)
            share = self._pair_share(slate, h.dtype)
            value, slope = self._ndcg(used, slate, h.dtype)
            selection = self._select(h.detach(), used, slate, rows)
            gradient = self._gradient(terms, selection, share * value, share * slope, slate)
            total = (share * selection.psi * value).sum()
        return attach_gradient(total, h, gradient), {"u": new, **selection.rows}

    def _objective(self, h: Tensor, slate: Slate, rows: Rows) -> Tensor:
        """Estimated top-K NDCG of the batch, with rank offset 0."""
        _, _, new = self._ranks(h, slate, rows)
        value, _ = self._ndcg(new, slate, h.dtype, rank_offset=0.0)
        return -(self._pair_share(slate, h.dtype) * self._select(h, new, slate, rows).psi * value).sum()

    def _gradient(self, terms: RankTerms, selection: _Selection, value: Tensor, slope: Tensor, slate: Slate) -> Tensor:
        if self.mode == "practical":
            return terms.gradient(selection.psi * slope)
        if self.form == "rank":
            size = list_counts(slate, slope.dtype)[0].unsqueeze(1)
            return terms.gradient(selection.psi * slope - size * selection.slope * value)
        assert selection.cross is not None
        assert selection.divisor is not None
        pull = selection.slope * value
        gradient = terms.gradient(selection.psi * slope).scatter_add_(1, slate.column, pull)
        return gradient.addcmul_(selection.cross, (pull.sum(-1) / selection.divisor).unsqueeze(1), value=-1.0)

    def _select(self, h: Tensor, u: Tensor, slate: Slate, rows: Rows) -> _Selection:
        """ψ and ψ′ for the slate's relevant items, with the threshold moved on for the next visit."""
        size, _ = list_counts(slate, h.dtype)
        if self.form == "rank":
            kept = {name: rows[name] for name in self.by_query}
            return self._selection(self.problem.k - size.unsqueeze(1) * u, size, None, None, kept)
        threshold, cross, divisor, moved = self._track(h, size, slate, rows)
        return self._selection(h.gather(1, slate.column) - threshold.unsqueeze(1), size, cross, divisor, moved)

    def _selection(
        self, lead: Tensor, size: Tensor, cross: Tensor | None, divisor: Tensor | None, rows: Rows
    ) -> _Selection:
        """ψ and ψ′ of how far each relevant item leads; 1 and 0 where K ≥ N."""
        psi, slope = select(lead, self.selector, self.selector_scale)
        everything = (self.problem.k >= size).unsqueeze(1)
        psi = torch.where(everything, torch.ones_like(psi), psi)
        slope = torch.where(everything, torch.zeros_like(slope), slope)
        return _Selection(psi, slope, cross, divisor, rows)

    def _track(self, h: Tensor, size: Tensor, slate: Slate, rows: Rows) -> tuple[Tensor, Tensor, Tensor, Rows]:
        """The λ to use now, ∇λ as a quotient [B, L] / [B], and the rows after this visit."""
        visit = self._visit(h, size, slate, rows)
        slope, cross = self.problem.derivatives(visit.threshold, h, visit.weight, size, visit.centre)
        bend = self.problem.tau2 + cross.sum(-1)
        curvature = moving_average(rows["curvature"].to(h.dtype), bend, self.threshold_gamma)
        smallest = torch.finfo(h.dtype).tiny
        step = self.threshold_rate * slope
        if self.threshold_step == "newton":
            step = visit.within_reach(step / curvature.clamp_min(smallest))
        moved = {"threshold": visit.threshold - step, "curvature": curvature, "centre": visit.centre}
        divisor = bend if self.implicit == "slate" else curvature
        return visit.threshold, cross, divisor.clamp_min(smallest), self._after(moved, size, slate, rows)

    def _visit(self, h: Tensor, size: Tensor, slate: Slate, rows: Rows) -> _Visit:
        given, counts = own_weights(slate, h.dtype), list_counts(slate, h.dtype)
        weight = list_weights(slate.label, slate.mask, *counts, weight=given, estimator=self.estimator)
        stored = rows["threshold"].to(h.dtype)
        known = seen(stored)
        own = _SlateThreshold(h, weight, size, self.problem)
        threshold = own.where(~known, stored)
        if self.centred == "first":
            kept = rows["centre"].to(h.dtype)
            centre = torch.where(seen(kept), kept, threshold)
        else:
            centre = torch.zeros_like(threshold)
        return _Visit(weight, threshold, centre, own)

    def _after(self, moved: Rows, size: Tensor, slate: Slate, rows: Rows) -> Rows:
        """The rows moved on, but for queries with nothing to select and where the new λ is not finite."""
        chosen = (self.problem.k < size) & slate.rows_present & torch.isfinite(moved["threshold"])
        return {name: torch.where(chosen, value, rows[name].to(value.dtype)) for name, value in moved.items()}


class _SlateThreshold:
    """The weighted (K+1)-th largest score of each row of a slate, worked out where it is asked for.

    It takes a sort. A CPU can look which rows need it; a GPU would have to wait for the answer, and sorts them all.
    """

    def __init__(self, h: Tensor, weight: Tensor, size: Tensor, problem: ThresholdProblem) -> None:
        self.h, self.weight, self.size, self.problem = h, weight, size, problem
        picky = h.device.type == "cpu" and not torch.compiler.is_compiling()
        self.everywhere = None if picky else self._of(h, weight, size)

    def where(self, wanted: Tensor, otherwise: Tensor) -> Tensor:
        """[B]: the slate's threshold for the rows ``wanted``, ``otherwise`` for the others."""
        if self.everywhere is not None:
            return torch.where(wanted, self.everywhere, otherwise)
        rows = wanted.nonzero().squeeze(1)
        if rows.numel() == 0:
            return otherwise
        return otherwise.index_copy(0, rows, self._of(self.h[rows], self.weight[rows], self.size[rows]))

    def _of(self, h: Tensor, weight: Tensor, size: Tensor) -> Tensor:
        return weighted_threshold(h, weight * size.unsqueeze(1), self.problem.k, self.problem.epsilon)


@dataclass(frozen=True)
class _Visit:
    """Where a step finds its queries: weights over the slate [B, L], λ to use, the centre, and the slate's own λ."""

    weight: Tensor
    threshold: Tensor
    centre: Tensor
    own: _SlateThreshold

    def within_reach(self, step: Tensor) -> Tensor:
        """The step, cut to at most τ₁ more than the way to the slate's own λ."""
        tau1 = self.own.problem.tau1
        far = step.abs() > tau1
        reach = (self.own.where(far, self.threshold) - self.threshold).abs() + tau1
        return torch.maximum(torch.minimum(step, reach), -reach)
