"""Faster SONG: SONG with variance-reduced memory and the gradient at two points (the paper's last section)."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from songrank.core.checks import check_int, check_number, check_same_shape, fail
from songrank.core.options import checked
from songrank.core.slate import Slate
from songrank.losses.base import Count, NotNegative, Positive, Rows, SurrogateName, attach_gradient, present_scores
from songrank.losses.memory import ROUNDING, log_msvr, msvr, msvr_beta, seen
from songrank.losses.paper_form import FASTER_SHIPPED, FasterForm
from songrank.losses.registry import register
from songrank.losses.schedules import Schedule
from songrank.losses.smooth_rank import Selection, Terms
from songrank.losses.song import SONG


class VarianceReduced(SONG):
    """Base class of Faster SONG and Faster K-SONG: the previous point, γ and β, the guards' counts."""

    form: FasterForm
    form_kind = FasterForm
    steps: Tensor
    """int64: steps taken in training mode."""
    guarded: Tensor
    """int64 [1] or [2]: number of times u was lifted to ℓ(0)/N, and s to τ₂."""

    @classmethod
    def check_together(cls, options: Mapping[str, Any]) -> None:
        """Raise for an invalid combination of form, points and γ."""
        super().check_together(options)
        if check_int("points", options["points"]) > 2:
            fail("points", options["points"], "1 or 2")
        form = FasterForm.read(options["form"], cls.switches)
        if form.implicit == "regression":
            fail("form.implicit", form.implicit, "slate, memory or memory_before for the faster losses")
        memory = form.memory
        fixed_gamma(options["gamma"], memory)
        if "threshold" in options:
            fixed_gamma(options["threshold"].gamma, memory, "threshold.gamma")

    def _set_up(
        self, active_queries: int, queries_per_batch: int, gamma: float | Schedule, points: int, guards: int
    ) -> None:
        self.points = points
        self.queries_per_batch = check_int("queries_per_batch", queries_per_batch)
        self.query_share = min(1.0, self.queries_per_batch / check_int("active_queries", active_queries))
        self.schedule = gamma if isinstance(gamma, Schedule) else None
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("guarded", torch.zeros(guards, dtype=torch.int64))

    def check(self, scores: Tensor, slate: Slate) -> None:
        """Raise unless scores and slate match and the batch is small enough."""
        super().check(scores, slate)
        if slate.query.shape[0] > self.queries_per_batch:
            fail("slate.query", slate.query.shape, f"at most queries_per_batch={self.queries_per_batch} rows")

    def forward(
        self, scores: Tensor, slate: Slate, before: Tensor | None = None, change: Tensor | None = None
    ) -> Tensor:
        """Compute the loss; update the memory in training mode.

        Args:
            scores: [B, L], h(w_t).
            slate: the scored slate.
            before: [B, L], h(w_{t−1}) for the same slate and dropout (two points). The value's gradient in ``scores``
                is then G(w_t), in ``before`` G(w_{t−1}).
            change: [B, L], ∇h(w_t)·(w_t − w_{t−1}), in place of ``before`` (one point).
        """
        self.check(scores, slate)
        if before is not None and change is not None:
            fail("before and change", "both given", "one of them, or neither")
        for name, other in (("before", before), ("change", change)):
            if other is not None:
                check_same_shape(name, other, "scores", scores)
        return self._visit(scores, slate, before, change)

    def step(
        self, scores: Tensor, slate: Slate, rows: Rows, before: Tensor | None = None, change: Tensor | None = None
    ) -> tuple[Tensor, Rows]:
        """Pure function: the loss and the new rows; ``guarded`` counts the interventions of the guards."""
        kind = self._working_type(scores)
        h = present_scores(scores, slate, kind)
        past = None if before is None else present_scores(before, slate, kind)
        with torch.no_grad():
            moved = None if change is None else present_scores(change, slate, kind)
            points = (h.detach(), None if past is None else past.detach(), moved)
            now, then, new, earlier, lifted = self._both_ranks(*points, slate, rows)
            selected, selected_before, others, also_lifted = self._both_selections(*points, slate, rows)
            total, gradient = self._evaluate(now, earlier if self.form.lagged else new, selected, slate)
        after = {**others, self.by_pair[0]: new, "guarded": torch.stack([lifted, *also_lifted])}
        value = attach_gradient(total, h, gradient)
        if past is not None and past.requires_grad:
            assert then is not None
            assert selected_before is not None
            with torch.no_grad():
                _, gradient = self._evaluate(then, earlier, selected_before, slate)
            value = value + attach_gradient(torch.zeros_like(total), past, gradient)
        return value, after

    def scatter(self, slate: Slate, rows: Rows) -> None:
        """Write the rows and count the step."""
        super().scatter(slate, rows)
        self.steps.add_(1)
        self.guarded.add_(rows["guarded"])

    def reset(self) -> None:
        """Clear the memory."""
        super().reset()
        self.steps.zero_()
        self.guarded.zero_()

    # ---- for the two losses

    def _both_ranks(
        self, h: Tensor, past: Tensor | None, moved: Tensor | None, slate: Slate, rows: Rows
    ) -> tuple[Terms, Terms | None, Tensor, Tensor, Tensor]:
        """The terms of ĝ at both points, u after this step and u of G(w_{t−1}), number of lifted u."""
        now = self._terms(h, slate, moved)
        then = None if past is None else self._terms(past, slate)
        old = rows[self.by_pair[0]].to(h.dtype)
        relevant = slate.num_relevant.to(h.dtype)
        sampled = slate.active.sum(-1).to(h.dtype)
        share = self.query_share * (sampled.clamp_min(1.0) / relevant.clamp_min(1.0)).clamp_max(1.0)
        rates = self._rates(self.gamma, share.unsqueeze(1), h.dtype)
        if self.surrogate.in_logs:
            before = None if then is None else then.estimate
            floor = torch.maximum(self._lowest(slate, h.dtype), now.estimate + _log(rates[0]))
            new, lifted = log_msvr(old, now.estimate, before, now.moved, *rates, floor)
            lifted = (lifted & slate.active).sum()
        else:
            difference: Tensor | float = 0.0 if now.moved is None else now.moved
            if then is not None:
                difference = now.estimate - then.estimate
            new = msvr(old, now.estimate, difference, *rates)
            new, lifted = lift(new, self._lowest(slate, h.dtype), slate.active)
        first = now.estimate if then is None else then.estimate
        earlier = torch.where(seen(old), old, first)
        if then is not None and self.corrects:
            floor = self._lowest(slate, h.dtype)
            if self.surrogate.in_logs:
                floor = torch.maximum(floor, then.estimate + _log(rates[0]))
            earlier = self._corrected(new, now.estimate, then.estimate, floor)
        return now, then, new, earlier, lifted

    @property
    def corrects(self) -> bool:
        """Whether u and s of G(w_{t−1}) are those of this step without the change of their estimates."""
        return self.form.earlier == "corrected" and not self.form.lagged

    def _corrected(self, new: Tensor, now: Tensor, then: Tensor, lowest: Tensor) -> Tensor:
        """u_t − (ĝ(w_t) − ĝ(w_{t−1})), or its logarithm from logarithms, at least ``lowest``."""
        if not self.surrogate.in_logs:
            return torch.maximum(new - (now - then), lowest)
        top = torch.maximum(torch.maximum(new, now), then)
        value = torch.exp(new - top) - torch.exp(now - top) + torch.exp(then - top)
        return torch.maximum(torch.log(value.clamp_min(torch.finfo(value.dtype).tiny)) + top, lowest)

    def _both_selections(
        self, h: Tensor, past: Tensor | None, moved: Tensor | None, slate: Slate, rows: Rows
    ) -> tuple[Selection, Selection | None, Rows, list[Tensor]]:
        """The selections at both points, the new rows, numbers of lifted values; empty without top K."""
        return Selection(), Selection(), {}, []

    def _ranks(self, h: Tensor, slate: Slate, rows: Rows) -> tuple[Terms, Tensor, Tensor]:
        now, _, new, old, _ = self._both_ranks(h, None, None, slate, rows)
        return now, old, new

    def _rates(self, gamma: float, share: Tensor | float, dtype: torch.dtype) -> tuple[Tensor | float, Tensor | float]:
        """(γ, β) of rows that a step draws with probability ``share``."""
        chosen = gamma if self.schedule is None else self.schedule.gamma(self._time(dtype), share)
        if self.form.memory == "moving_average":
            return chosen, 0.0
        return chosen, msvr_beta(chosen, share) if self.form.memory == "msvr" else 1.0 - chosen

    def _time(self, dtype: torch.dtype) -> Tensor:
        """The number t of this step, from 1."""
        return (self.steps + 1).to(dtype)


@register("faster-song")
class FasterSONG(VarianceReduced):
    r"""SONG with u tracked by MSVR: the paper's Faster K-SONG without its top-K selection.

    With ĝ(w_t) and ĝ(w_{t−1}) from the same slate, and π = (B/active_queries)·min(1, sampled/N⁺), the probability that
    a step draws the pair,

        u_t      = (1 − γ) u_{t−1} + γ ĝ(w_t) + β (ĝ(w_t) − ĝ(w_{t−1})),     β = 1 − γ + (1 − π) / (π (1 − γ))
        G(w_t)   = mean over queries of N_q⁺ · mean over sampled i of f′(u_t) ∇ĝ(w_t)
        G(w_{t−1}), the same with u_t − (ĝ(w_t) − ĝ(w_{t−1})) and ∇ĝ(w_{t−1}), on this step's slate

    G(w_{t−1}) has u_{t−1} as printed (``form.earlier``). With ``form.lagged`` both use u_{t−1}.

    ``loss(scores, slate, before=scores_at_previous_weights)`` has the gradients G(w_t) in ``scores`` and G(w_{t−1}) in
    ``before``: one ``backward()`` gives both to :class:`songrank.training.optim.storm.Storm`. With
    ``change=directional_derivative_of_scores`` it is MSVR-SP, ∇ĝ(w_t)·(w_t − w_{t−1}) in place of the difference, for
    an ordinary optimiser; no theorem covers that. With neither, u is the moving average of :class:`SONG`.

    A first visit sets u to ĝ(w_t), and the u before it to ĝ(w_{t−1}). MSVR can leave the range of its estimates: u is
    kept at ℓ(0)/N or above, an item's own comparison, and in log space also at γ ĝ or above, as a moving average is;
    ``guarded`` counts these cases. Other options are those of
    :class:`SONG`.

    Args:
        num_queries: number of queries of the task, the default of ``active_queries``.
        queries_per_batch: B, maximum number of queries per step.
        gamma: γ in (0, 1], or a :class:`Schedule`.
        points: weight points at which a trainer computes scores: 2, or 1 with the directional derivative of the scores.
        active_queries: number of queries that steps draw from; ``num_queries`` by default.

    >>> from songrank import Slate
    >>> from songrank.losses import FasterSONG
    >>> slate = Slate.from_batch(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([0]), torch.tensor([[0, -1, -1]]))
    >>> before = torch.tensor([[0.0, 1.0, -3.0]], requires_grad=True)
    >>> scores = torch.tensor([[0.2, 0.9, -3.0]], requires_grad=True)
    >>> loss = FasterSONG(num_pairs=1, num_queries=10, queries_per_batch=1)
    >>> loss(scores, slate, before=before).backward()
    >>> scores.grad[0, 0] < 0, before.grad[0, 0] < 0
    (tensor(True), tensor(True))
    """

    traits = replace(SONG.traits, previous_point=True, whole_batch=True, plain="song")
    switches = (*SONG.switches, "memory", "earlier")

    @checked
    def __init__(
        self,
        num_pairs: int,
        num_queries: Count,
        queries_per_batch: int,
        gamma: float | Schedule = 0.1,
        *,
        points: int = 2,
        active_queries: int | None = None,
        surrogate: SurrogateName = "squared_hinge",
        margin: float = 1.0,
        temperature: Positive = 1.0,
        rank_offset: NotNegative | None = None,
        form: Literal["paper"] | FasterForm = FASTER_SHIPPED,
        pair_range: tuple[int, int] | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
    ) -> None:
        form = FasterForm.read(form, self.switches)
        own = (num_pairs, fixed_gamma(gamma, form.memory), surrogate, margin, rank_offset)
        more: dict[str, Any] = {"form": form, "pair_range": pair_range, "dtype": dtype, "validate": validate}
        super().__init__(*own, temperature=temperature, **more)
        active = num_queries if active_queries is None else active_queries
        self._set_up(active, queries_per_batch, gamma, points, guards=1)


def fixed_gamma(gamma: float | Schedule, memory: str, name: str = "gamma") -> float:
    """γ if it is valid for this memory; ½, the maximum, for a schedule."""
    if isinstance(gamma, Schedule):
        return 0.5
    number = check_number(name, gamma, 0.0, 1.0, low_open=True)
    if memory == "msvr" and number == 1.0:
        fail(name, number, "a number in (0, 1) with memory='msvr'")
    return number


def _log(gamma: Tensor | float) -> Tensor | float:
    return torch.log(gamma) if isinstance(gamma, Tensor) else math.log(gamma)


def lift(values: Tensor, floor: Tensor | float, where: Tensor) -> tuple[Tensor, Tensor]:
    """The values, at least ``floor``, and how many of those ``where`` were below it by more than rounding."""
    low = where & (values < floor * (1.0 - ROUNDING))
    return torch.where(values < floor, floor, values), low.sum()
