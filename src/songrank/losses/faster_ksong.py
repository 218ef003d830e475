"""Faster K-SONG: u, s and z variance-reduced, and the gradient at two points (the paper's last algorithm)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from songrank.core.slate import Slate
from songrank.losses.base import Rows, list_counts
from songrank.losses.faster_song import VarianceReduced, fixed_gamma, lift
from songrank.losses.ksong import KSONG, _Selection
from songrank.losses.memory import UNSEEN, MemoryTable, msvr, seen
from songrank.losses.rank_terms import RankTerms
from songrank.losses.registry import register
from songrank.losses.schedules import Schedule


@register("faster-k-song")
class FasterKSONG(VarianceReduced, KSONG):
    r"""Top-K NDCG as a loss: the paper's Faster K-SONG.

    u per pair as in :class:`FasterSONG`; s and z per query, in the same way, with π = B/num_queries:

        s tracks ∇²_λ L(w_t, λ_t) and z tracks ∇_λ L(w_t, λ_t), each with its change since (w_{t−1}, λ_{t−1})
        λ_{t+1} = λ_t − τ η_t z_t                                                 (η_t = 1 where γ is no schedule)
        G(w_t)  = Σ_i ψ f′(u_t) ∇ĝ_i + ψ′ f(u_t) (∇h_i − Σ_j w_j φ″(h_j − λ_t) ∇h_j / s_t)      (eq. 5, at w_t)

    and G(w_{t−1}) with u, s and λ of the step before, on this step's slate. λ_{t−1} differs from λ_t only for queries
    that the step before drew: their old λ are kept, no second table. The call is that of :class:`FasterSONG`; for the
    single point s and z move along (dh, λ_t − λ_{t−1}) by ``ThresholdProblem.directional``. First visits are those of
    :class:`KSONG`, with λ_{t−1} = λ_t. s is kept at τ₂ or above (and above 0); ``guarded`` counts for u and for s.

    Args:
        num_pairs: relevant pairs of the task.
        num_queries: queries of the task.
        k: K; the slates must be made for the same k.
        queries_per_batch: B, the most queries that a step may have.
        gamma: γ of u in (0, 1], or a :class:`Schedule` for u, s, z and λ's step.
        memory: as for :class:`FasterSONG`; of u, s and z.
        lagged: as for :class:`FasterSONG`; of u and s.
        points, active_queries: as for :class:`FasterSONG`.
        threshold_step: ``"gradient"``, the algorithm's, or ``"newton"``: λ − τ η_t z / s, within
            the reach that :class:`KSONG` allows.
        threshold_rate: τ.
        threshold_gamma: γ of s and z, where ``gamma`` is a number.
        implicit: what ∇λ is divided by: ``"memory"``, s; or ``"slate"``, this slate's ∇²_λ L, as :class:`KSONG` does.
        mode, rank_offset, surrogate, margin, selector, selector_scale, epsilon, tau1, tau2, smoothing, centre,
            estimator, pair_range, query_range, dtype, validate: as for :class:`KSONG`.

    >>> from songrank import Slate
    >>> from songrank.losses.faster_ksong import FasterKSONG
    >>> slate = Slate.from_batch(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([0]), torch.tensor([[0, -1, -1]]), k=1)
    >>> before = torch.tensor([[0.0, 1.0, -3.0]], requires_grad=True)
    >>> scores = torch.tensor([[0.2, 0.9, -3.0]], requires_grad=True)
    >>> loss = FasterKSONG(num_pairs=1, num_queries=10, k=1, queries_per_batch=1)
    >>> loss(scores, slate, before=before).backward()
    >>> loss.slope.read([0]).isfinite(), loss.guarded.tolist()
    (tensor([True]), [0, 0])

    """

    traits = replace(KSONG.traits, previous_point=True, whole_batch=True, plain="k-song")
    by_query = ("threshold", "curvature", "centre", "slope")
    last_query: Tensor
    """[B] int64: the queries of the step before, −1 for none."""
    last_threshold: Tensor
    """[B]: their λ before that step moved it."""

    def __init__(
        self,
        num_pairs: int,
        num_queries: int,
        k: int,
        queries_per_batch: int,
        gamma: float | Schedule = 0.1,
        memory: str = "storm",
        mode: str = "theoretical",
        rank_offset: float | None = None,
        *,
        lagged: bool = True,
        points: int = 2,
        active_queries: int | None = None,
        surrogate: str = "squared_hinge",
        margin: float = 1.0,
        selector: str = "sigmoid",
        selector_scale: float = 2.0,
        threshold_step: str = "gradient",
        threshold_rate: float = 0.3,
        threshold_gamma: float = 0.3,
        implicit: str = "memory",
        epsilon: float = 0.5,
        tau1: float = 0.1,
        tau2: float = 1e-4,
        smoothing: str = "softplus",
        centre: str = "first",
        estimator: str = "strata",
        pair_range: tuple[int, int] | None = None,
        query_range: tuple[int, int] | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
    ) -> None:
        super().__init__(
            num_pairs,
            num_queries,
            k,
            fixed_gamma(gamma, memory),
            mode,
            rank_offset,
            lagged=lagged,
            surrogate=surrogate,
            margin=margin,
            selector=selector,
            selector_scale=selector_scale,
            threshold_step=threshold_step,
            threshold_rate=threshold_rate,
            threshold_gamma=fixed_gamma(threshold_gamma, memory, "threshold_gamma"),
            implicit=implicit,
            epsilon=epsilon,
            tau1=tau1,
            tau2=tau2,
            smoothing=smoothing,
            centre=centre,
            estimator=estimator,
            pair_range=pair_range,
            query_range=query_range,
            dtype=dtype,
            validate=validate,
        )
        active = num_queries if active_queries is None else active_queries
        self._set_up(active, queries_per_batch, gamma, memory, points, guards=2)
        self.slope = MemoryTable(num_queries, query_range, dtype=dtype, name="queries")
        self.register_buffer("last_query", torch.full((queries_per_batch,), -1))
        self.register_buffer("last_threshold", torch.full((queries_per_batch,), UNSEEN, dtype=dtype))

    def gather(self, slate: Slate) -> Rows:
        """The rows of this slate as they are now, with λ of the step before as ``earlier`` where that step moved it."""
        same = slate.query.unsqueeze(1) == self.last_query
        kept = self.last_threshold.index_select(0, same.int().argmax(1))
        return {**super().gather(slate), "earlier": torch.where(same.any(1), kept, UNSEEN)}

    def scatter(self, slate: Slate, rows: Rows) -> None:
        """Write the rows of this slate, count, and keep its queries with the λ that was used."""
        super().scatter(slate, rows)
        self._forget_last()
        count = slate.query.shape[0]
        used = rows["used"].to(self.last_threshold.dtype)
        known = slate.rows_present & used.isfinite()
        self.last_query[:count] = torch.where(known, slate.query, -1)
        self.last_threshold[:count] = torch.where(known, used, UNSEEN)

    def reset(self) -> None:
        """Forget everything: every next visit is a first one, and the next step the first."""
        super().reset()
        self._forget_last()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *told: Any) -> None:
        """Of a step that other processes or larger batches had a part in, the queries held here are kept."""
        names = [f"{prefix}last_query", f"{prefix}last_threshold"]
        query, used = (state_dict.get(name) for name in names)
        if query is not None and used is not None and query.shape == used.shape != self.last_query.shape:
            held = (query >= self.slope.first) & (query < self.slope.last)
            rows = held.nonzero().squeeze(1)[: self.queries_per_batch]
            kept = query.new_full(self.last_query.shape, -1), used.new_full(self.last_query.shape, UNSEEN)
            for new, old in zip(kept, (query, used), strict=True):
                new[: rows.numel()] = old[rows]
            state_dict = {**state_dict, **dict(zip(names, kept, strict=True))}
        super()._load_from_state_dict(state_dict, prefix, *told)

    def _forget_last(self) -> None:
        self.last_query.fill_(-1)
        self.last_threshold.fill_(UNSEEN)

    def _both_selections(
        self, h: Tensor, past: Tensor | None, moved: Tensor | None, slate: Slate, rows: Rows
    ) -> tuple[_Selection, _Selection | None, Rows, list[Tensor]]:
        size, _ = list_counts(slate, h.dtype)
        visit = self._visit(h, size, slate, rows)
        stored = rows["earlier"].to(h.dtype)
        earlier = torch.where(seen(stored), stored, visit.threshold)
        gradient, cross = self.problem.derivatives(visit.threshold, h, visit.weight, size, visit.centre)
        bend = self.problem.tau2 + cross.sum(-1)
        changes: tuple[Tensor | float, Tensor | float] = 0.0, 0.0
        if past is not None:
            gradient_before, cross_before = self.problem.derivatives(earlier, past, visit.weight, size, visit.centre)
            bend_before = self.problem.tau2 + cross_before.sum(-1)
            changes = gradient - gradient_before, bend - bend_before
        elif moved is not None:
            along = visit.threshold - earlier, moved
            changes = self.problem.directional(visit.threshold, h, visit.weight, *along)

        rates = self._rates(self.threshold_gamma, self.query_share, h.dtype)
        z = msvr(rows["slope"].to(h.dtype), gradient, changes[0], *rates)
        remembered = rows["curvature"].to(h.dtype)
        floor = max(self.problem.tau2, torch.finfo(h.dtype).tiny)
        s, lifted = lift(
            msvr(remembered, bend, changes[1], *rates), floor, slate.rows_present & (self.problem.k < size)
        )
        step = self.threshold_rate * z
        if self.schedule is not None:
            step = step * self.schedule.eta(self._time(h.dtype))
        if self.threshold_step == "newton":
            step = visit.within_reach(step / s)
        after = {"threshold": visit.threshold - step, "curvature": s, "centre": visit.centre, "slope": z}

        relevant = h.gather(1, slate.column) - visit.threshold.unsqueeze(1)
        kept = torch.where(seen(remembered), remembered, bend if past is None else bend_before)
        divisor = bend if self.implicit == "slate" else kept.clamp_min(floor) if self.lagged else s
        now = self._selection(relevant, size, cross, divisor, {})
        then = None
        if past is not None:
            divisor = bend_before if self.implicit == "slate" else kept
            relevant = past.gather(1, slate.column) - earlier.unsqueeze(1)
            then = self._selection(relevant, size, cross_before, divisor.clamp_min(floor), {})
        return now, then, {**self._after(after, size, slate, rows), "used": visit.threshold}, [lifted]

    def _evaluate(self, terms: RankTerms, u: Tensor, selected: _Selection, slate: Slate) -> tuple[Tensor, Tensor]:
        share = self._pair_share(slate, u.dtype)
        value, slope = self._ndcg(u, slate, u.dtype)
        gradient = self._gradient(terms, selected, share * value, share * slope, slate)
        return (share * selected.psi * value).sum(), gradient

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FasterKSONG:
        kept = self.last_threshold
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if not (kept.is_meta or self.last_threshold.is_meta):
            self.last_threshold = kept.to(self.last_threshold.device)  # moved, but never cast
        return self
