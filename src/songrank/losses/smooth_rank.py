"""The family of losses of smooth ranks: inner surrogate, outer function and selector, with one u per relevant pair."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor

from songrank.core.slate import Slate
from songrank.functional.log_rank_terms import LogTerms, Rivals, log_rank_terms
from songrank.functional.rank_terms import RankTerms
from songrank.functional.strata import list_counts
from songrank.functional.surrogates import Surrogate
from songrank.losses.base import MemoryLoss, Rows, attach_gradient, present_scores
from songrank.losses.memory import MemoryTable, log_moving_average, moving_average, seen
from songrank.losses.outer import Outer
from songrank.losses.paper_form import PaperForm


@dataclass(frozen=True)
class Selection:
    """ψ and ψ′ [B, P] (None: all items have weight 1), ∇λ = cross [B, L] / divisor [B], new rows of the queries."""

    psi: Tensor | None = None
    slope: Tensor | None = None
    cross: Tensor | None = None
    divisor: Tensor | None = None
    rows: Rows = field(default_factory=dict)

    def of(self, share: Tensor) -> Tensor:
        """``share`` times ψ."""
        return share if self.psi is None else share * self.psi


Terms = RankTerms | LogTerms
"""ĝ of a slate's relevant items, or its logarithm, and its gradient."""


class SmoothRankLoss(MemoryLoss):
    r"""Base class of losses mean_q Σ_i ψ_i f(g_i) with g_i = mean_j ℓ(h_j − h_i), tracked per pair.

    A member of the family is a choice of ``surrogate`` (ℓ), ``outer`` (f, :mod:`songrank.losses.outer`) and, with
    :class:`songrank.losses.top_k.TopK`, a selector ψ. Surrogates with a temperature keep ln u in the table ``log_u``,
    others u in ``u``; ``_evaluate`` and the update rules are the same for both.
    """

    surrogate: Surrogate
    outer: Outer
    u: MemoryTable
    log_u: MemoryTable
    rivals: ClassVar[Rivals] = "all"

    def __init__(
        self,
        surrogate: Surrogate,
        outer: Outer,
        num_pairs: int,
        gamma: float,
        form: Literal["paper"] | PaperForm,
        pair_range: tuple[int, int] | None,
        dtype: torch.dtype,
        validate: bool,
    ) -> None:
        super().__init__(gamma, self.form_kind.read(form, self.switches), validate=validate)
        self.surrogate, self.outer = surrogate, outer
        self.by_pair = ("log_u",) if surrogate.in_logs else ("u",)
        self.register_module(self.by_pair[0], MemoryTable(num_pairs, pair_range, dtype=dtype, name="pairs"))

    def step(self, scores: Tensor, slate: Slate, rows: Rows) -> tuple[Tensor, Rows]:
        """Pure function: the loss and the new rows of the slate's pairs and queries."""
        h = present_scores(scores, slate, self._working_type(scores))
        with torch.no_grad():
            terms, old, new = self._ranks(h.detach(), slate, rows)
            u = torch.where(seen(old), old, new) if self.form.lagged else new
            selection = self._select(h.detach(), u, slate, rows)
            total, gradient = self._evaluate(terms, u, selection, slate)
        return attach_gradient(total, h, gradient), {self.by_pair[0]: new, **selection.rows}

    def _objective(self, h: Tensor, slate: Slate, rows: Rows) -> Tensor:
        """The readable value of the batch: estimated NDCG with rank offset 0, or the negative log-likelihood."""
        _, _, new = self._ranks(h, slate, rows)
        value = self.outer.readable(new, slate, self.surrogate)
        return (self._select(h, new, slate, rows).of(self.outer.share(slate, h.dtype)) * value).sum()

    def _terms(self, h: Tensor, slate: Slate, change: Tensor | None = None) -> Terms:
        """ĝ of the slate's relevant items (its logarithm, for a surrogate in log space) and its gradient."""
        if self.surrogate.in_logs:
            return log_rank_terms(h, slate, self.surrogate, self.form.estimator, change, self.rivals)
        return RankTerms.of(h, slate, self.surrogate, self.form.estimator, change)

    def _ranks(self, h: Tensor, slate: Slate, rows: Rows) -> tuple[Terms, Tensor, Tensor]:
        """The terms of ĝ, u before and u after this visit; logarithms for a surrogate in log space."""
        terms = self._terms(h, slate)
        old = rows[self.by_pair[0]].to(h.dtype)
        average: Callable[..., Tensor] = log_moving_average if self.surrogate.in_logs else moving_average
        return terms, old, average(old, terms.estimate, self.gamma)

    def _select(self, h: Tensor, u: Tensor, slate: Slate, rows: Rows) -> Selection:
        """Weights of the relevant items and new rows of the queries: here all items and no rows."""
        return Selection()

    def _evaluate(self, terms: Terms, u: Tensor, selection: Selection, slate: Slate) -> tuple[Tensor, Tensor]:
        """The objective and G."""
        share = self.outer.share(slate, u.dtype)
        value, slope = self.outer.terms(u, slate, self.surrogate)
        return (share * value).sum(), terms.gradient(share * slope, u)

    def _lowest(self, slate: Slate, dtype: torch.dtype) -> Tensor:
        """[B, 1]: ℓ(0)/N or its logarithm, an item's own comparison and the lower bound of u."""
        lowest = self.surrogate.at_zero / list_counts(slate, dtype)[0].unsqueeze(1)
        return torch.log(lowest) if self.surrogate.in_logs else lowest
