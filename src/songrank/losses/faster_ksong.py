"""Faster K-SONG: u, s and z variance-reduced, and the gradient at two points (the paper's last algorithm)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from songrank.core.options import checked
from songrank.core.slate import Slate
from songrank.functional.strata import list_counts
from songrank.losses.base import Positive, Rows, SurrogateName
from songrank.losses.faster_song import VarianceReduced, fixed_gamma, lift
from songrank.losses.ksong import KSONG
from songrank.losses.memory import UNSEEN, MemoryTable, msvr, seen
from songrank.losses.paper_form import FASTER_SHIPPED, FasterForm
from songrank.losses.registry import register
from songrank.losses.schedules import Schedule
from songrank.losses.smooth_rank import Selection
from songrank.losses.top_k import THRESHOLD, ThresholdOptions, Visit


@register("faster-k-song")
class FasterKSONG(VarianceReduced, KSONG):
    r"""Top-K NDCG as a loss: the paper's Faster K-SONG.

    u per pair as in :class:`FasterSONG`; s and z per query, in the same way, with π = B/active_queries:

        s tracks ∇²_λ L(w_t, λ_t) and z tracks ∇_λ L(w_t, λ_t), each with its change since (w_{t−1}, λ_{t−1})
        λ_{t+1} = λ_t − τ η_t z_t                                                 (η_t = 1 where γ is no schedule)
        G(w_t)  = Σ_i ψ f′(u_t) ∇ĝ_i + ψ′ f(u_t) (∇h_i − Σ_j w_j φ″(h_j − λ_t) ∇h_j / s_t)      (eq. 5, at w_t)

    and G(w_{t−1}) with u, s and λ of the previous step, on this step's slate. λ_{t−1} differs from λ_t only for the
    queries of the previous step: their old λ are kept, without a second table. The signature and the guard of u are
    those of :class:`FasterSONG`; with one point, s and z move along (dh, λ_t − λ_{t−1}) by
    ``ThresholdProblem.directional``. First visits are those of :class:`KSONG`, with λ_{t−1} = λ_t. s is kept at τ₂ or
    above (and above 0). ``form.lagged`` and ``form.memory`` apply to u, s and z; ``form.threshold_step="newton"`` moves
    λ by τ η_t z / s. Other options are those of :class:`KSONG`.

    Args:
        queries_per_batch: B, maximum number of queries per step.
        gamma: γ of u in (0, 1], or a :class:`Schedule` for u, s, z and λ's step.
        points: weight points at which a trainer computes scores: 2, or 1 with the directional derivative of the scores.
        active_queries: number of queries that steps draw from; ``num_queries`` by default.

    >>> from songrank import Slate
    >>> from songrank.losses import FasterKSONG
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
    switches = (*(name for name in KSONG.switches if name != "selection"), "memory", "earlier")
    slope: MemoryTable
    last_query: Tensor
    """[B] int64: the queries of the previous step, −1 for none."""
    last_threshold: Tensor
    """[B]: their λ before that step."""

    @checked
    def __init__(
        self,
        num_pairs: int,
        num_queries: int,
        k: int,
        queries_per_batch: int,
        gamma: float | Schedule = 0.1,
        mode: str | None = None,
        rank_offset: float | None = None,
        *,
        points: int = 2,
        active_queries: int | None = None,
        surrogate: SurrogateName = "squared_hinge",
        margin: float = 1.0,
        temperature: Positive = 1.0,
        selector: str = "sigmoid",
        selector_scale: float = 2.0,
        threshold: ThresholdOptions = THRESHOLD,
        form: Literal["paper"] | FasterForm = FASTER_SHIPPED,
        pair_range: tuple[int, int] | None = None,
        query_range: tuple[int, int] | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
    ) -> None:
        form = FasterForm.read(form, self.switches)
        own = (num_pairs, num_queries, k, fixed_gamma(gamma, form.memory), mode, rank_offset)
        ndcg: dict[str, Any] = {"surrogate": surrogate, "margin": margin, "temperature": temperature, "form": form}
        ndcg |= {"threshold": threshold, "selector": selector, "selector_scale": selector_scale, "validate": validate}
        super().__init__(*own, pair_range=pair_range, query_range=query_range, dtype=dtype, **ndcg)
        active = num_queries if active_queries is None else active_queries
        self._set_up(active, queries_per_batch, gamma, points, guards=2)
        self.register_buffer("last_query", torch.full((queries_per_batch,), -1))
        self.register_buffer("last_threshold", torch.full((queries_per_batch,), UNSEEN, dtype=dtype))

    def gather(self, slate: Slate) -> Rows:
        """The current rows of this slate; ``earlier`` is λ before the previous step, if that step had the query."""
        same = slate.query.unsqueeze(1) == self.last_query
        kept = self.last_threshold.index_select(0, same.int().argmax(1))
        return {**super().gather(slate), "earlier": torch.where(same.any(1), kept, UNSEEN)}

    def scatter(self, slate: Slate, rows: Rows) -> None:
        """Write the rows, count the step, and keep its queries with their λ."""
        super().scatter(slate, rows)
        self._forget_last()
        count = slate.query.shape[0]
        used = rows["used"].to(self.last_threshold.dtype)
        known = slate.rows_present & used.isfinite()
        self.last_query[:count] = torch.where(known, slate.query, -1)
        self.last_threshold[:count] = torch.where(known, used, UNSEEN)

    def reset(self) -> None:
        """Clear the memory."""
        super().reset()
        self._forget_last()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """From the last step of other processes or larger batches, keep the queries held here."""
        names = [f"{prefix}last_query", f"{prefix}last_threshold"]
        query, used = (state_dict.get(name) for name in names)
        if query is not None and used is not None and query.shape == used.shape != self.last_query.shape:
            held = (query >= self.slope.first) & (query < self.slope.last)
            rows = held.nonzero().squeeze(1)[: self.queries_per_batch]
            kept = query.new_full(self.last_query.shape, -1), used.new_full(self.last_query.shape, UNSEEN)
            for new, old in zip(kept, (query, used), strict=True):
                new[: rows.numel()] = old[rows]
            state_dict = {**state_dict, **dict(zip(names, kept, strict=True))}
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _forget_last(self) -> None:
        self.last_query.fill_(-1)
        self.last_threshold.fill_(UNSEEN)

    def _both_selections(
        self, h: Tensor, past: Tensor | None, moved: Tensor | None, slate: Slate, rows: Rows
    ) -> tuple[Selection, Selection | None, Rows, list[Tensor]]:
        size, _ = list_counts(slate, h.dtype)
        visit = Visit(self, h, size, slate, rows)
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

        rates = self._rates(self.tracking.gamma, self.query_share, h.dtype)
        z = msvr(rows["slope"].to(h.dtype), gradient, changes[0], *rates)
        remembered = rows["curvature"].to(h.dtype)
        floor = max(self.problem.tau2, torch.finfo(h.dtype).tiny)
        s, lifted = lift(
            msvr(remembered, bend, changes[1], *rates), floor, slate.rows_present & (self.problem.k < size)
        )
        step = self.tracking.rate * z
        if self.schedule is not None:
            step = step * self.schedule.eta(self._time(h.dtype))
        if self.form.threshold_step == "newton":
            step = visit.within_reach(step / s)
        after = {"threshold": visit.moved_by(step), "curvature": s, "centre": visit.centre, "slope": z}
        if visit.count is not None:
            after["visits"] = visit.count

        relevant = h.gather(1, slate.column) - visit.threshold.unsqueeze(1)
        kept = torch.where(seen(remembered), remembered, bend if past is None else bend_before)
        by_slate, before = self.form.implicit == "slate", self.form.lagged or self.form.implicit == "memory_before"
        divisor = bend if by_slate else kept.clamp_min(floor) if before else s
        now = self._selection(relevant, size, cross, divisor)
        then = None
        if past is not None:
            divisor = bend_before if by_slate else s - (bend - bend_before) if self.corrects else kept
            relevant = past.gather(1, slate.column) - earlier.unsqueeze(1)
            then = self._selection(relevant, size, cross_before, divisor.clamp_min(floor))
        return now, then, {**self._after(after, size, slate, rows), "used": visit.threshold}, [lifted]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "FasterKSONG":
        kept = self.last_threshold
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if not (kept.is_meta or self.last_threshold.is_meta):
            self.last_threshold = kept.to(self.last_threshold.device)  # moved, but never cast
        return self
