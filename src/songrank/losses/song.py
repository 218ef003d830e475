"""SONG: stochastic optimisation of NDCG (Algorithm 1 of the paper)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from songrank.core.options import checked
from songrank.core.slate import Slate
from songrank.functional.ndcg import slate_ndcg_terms
from songrank.functional.rank_terms import RankTerms
from songrank.functional.surrogates import Surrogate
from songrank.losses.base import (
    Gamma,
    MemoryLoss,
    NotNegative,
    Rows,
    SurrogateName,
    Traits,
    attach_gradient,
    present_scores,
    row_shares,
)
from songrank.losses.memory import MemoryTable, moving_average, seen
from songrank.losses.paper_form import SHIPPED, PaperForm
from songrank.losses.registry import register


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


@register("song")
class SONG(MemoryLoss):
    r"""NDCG as a loss: Algorithm 1, with one float u in memory per relevant pair.

    With ĝ_i the slate's unbiased estimate of the smooth rank g_i / N of relevant item i (``functional.strata``):

        u_i  ← ĝ_i at the first visit, else (1 − γ) u_i + γ ĝ_i
        f(g) = (1 − 2^y) / (Z_q log₂(N g + 1 + o))
        G    = mean over queries of N_q⁺ · mean over sampled i of f′(u_i) ∇ĝ_i

    The value estimates F(w) = mean_q Σ_i f(u_i), which decreases from 0 towards −1 (with o = 0) as the ranking
    improves; its autograd gradient is G. With full lists and γ = 1 both are exact.

    Other options are those of :class:`MemoryLoss`.

    Args:
        num_pairs: upper bound of the row ids in ``slate.pair`` (0 … num_pairs − 1): ``relevance.num_pairs``, or 0 for
            whole lists with γ = 1.
        surrogate: name of ℓ (``functional.surrogates``).
        margin: c of the hinge surrogates.
        rank_offset: o ≥ 0; ``None`` for √N of each list (0 with ``form="paper"``); 0 is the paper's objective.

    >>> from songrank import SONG, Slate
    >>> labels = torch.tensor([[1.0, 0.0, 0.0]])
    >>> slate = Slate.from_batch(labels, query=torch.tensor([0]), pair=torch.tensor([[0, -1, -1]]))
    >>> scores = torch.tensor([[0.0, 1.0, -3.0]], requires_grad=True)
    >>> loss = SONG(num_pairs=1, rank_offset=0.0)
    >>> loss(scores, slate).backward()
    >>> scores.grad[0, 0] < 0 < scores.grad[0, 1]                  # relevant item up, its rival down
    tensor(True)
    >>> loss.u.read()                                              # (ℓ(0) + ℓ(1) + ℓ(−3)) / 3
    tensor([1.6667])
    """

    traits = Traits(
        memory=True,
        gains=True,
        cost="O(P·L)",
        objective="estimated NDCG of the slates",
        unit="NDCG",
        search={"gamma": "weight", "margin": "scale", "rank_offset": "offset"},
    )
    by_pair = ("u",)
    switches: tuple[str, ...] = ("lagged", "estimator", "offset")

    @classmethod
    def check_together(cls, options: Mapping[str, Any]) -> None:
        """Raise for an invalid surrogate, margin or form."""
        Surrogate(options["surrogate"], options["margin"])
        super().check_together(options)

    @checked
    def __init__(
        self,
        num_pairs: int,
        gamma: Gamma = 0.1,
        surrogate: SurrogateName = "squared_hinge",
        margin: float = 1.0,
        rank_offset: NotNegative | None = None,
        *,
        form: Literal["paper"] | PaperForm = SHIPPED,
        pair_range: tuple[int, int] | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
    ) -> None:
        super().__init__(gamma, PaperForm.read(form, self.switches), validate=validate)
        self.surrogate = Surrogate(surrogate, margin)
        self.rank_offset = 0.0 if rank_offset is None and self.form.offset == "zero" else rank_offset
        self.u = MemoryTable(num_pairs, pair_range, dtype=dtype, name="pairs")

    def check(self, scores: Tensor, slate: Slate) -> None:
        """Raise unless scores, slate and k match."""
        super().check(scores, slate)
        if slate.k != self.k:
            self._wrong_k(slate)

    def step(self, scores: Tensor, slate: Slate, rows: Rows) -> tuple[Tensor, Rows]:
        """Pure function: the loss and the new rows of the slate's pairs and queries."""
        h = present_scores(scores, slate, self._working_type(scores))
        with torch.no_grad():
            terms, old, new = self._ranks(h.detach(), slate, rows)
            u = torch.where(seen(old), old, new) if self.form.lagged else new
            selection = self._select(h.detach(), u, slate, rows)
            total, gradient = self._evaluate(terms, u, selection, slate)
        return attach_gradient(total, h, gradient), {"u": new, **selection.rows}

    def _objective(self, h: Tensor, slate: Slate, rows: Rows) -> Tensor:
        """Estimated NDCG of the batch (a lower bound, for surrogates with ℓ(0) ≥ 1), with rank offset 0."""
        _, _, new = self._ranks(h, slate, rows)
        value, _ = self._ndcg(new, slate, rank_offset=0.0)
        return -(self._select(h, new, slate, rows).of(self._pair_share(slate, h.dtype)) * value).sum()

    # ---- shared with K-SONG and the faster losses

    def _ranks(self, h: Tensor, slate: Slate, rows: Rows) -> tuple[RankTerms, Tensor, Tensor]:
        """The terms of ĝ, u before and u after this visit."""
        terms = RankTerms.of(h, slate, self.surrogate, self.form.estimator)
        old = rows["u"].to(h.dtype)
        return terms, old, moving_average(old, terms.estimate, self.gamma)

    def _select(self, h: Tensor, u: Tensor, slate: Slate, rows: Rows) -> Selection:
        """Weights of the relevant items and new rows of the queries: here all items and no rows."""
        return Selection()

    def _evaluate(self, terms: RankTerms, u: Tensor, selection: Selection, slate: Slate) -> tuple[Tensor, Tensor]:
        """The objective and G."""
        share = self._pair_share(slate, u.dtype)
        value, slope = self._ndcg(u, slate)
        return (share * value).sum(), terms.gradient(share * slope)

    def _pair_share(self, slate: Slate, dtype: torch.dtype) -> Tensor:
        """[B, P]: N_q⁺ / (sampled relevant items) times the query's share, 0 for entries without a pair."""
        active = slate.active
        sampled = active.sum(-1).clamp_min(1).to(dtype)
        share = row_shares(slate, dtype) * slate.num_relevant.to(dtype) / sampled
        return torch.where(active, share.unsqueeze(1), 0.0)

    def _ndcg(self, u: Tensor, slate: Slate, rank_offset: float | None = None) -> tuple[Tensor, Tensor]:
        """(f(u), f′(u)), 0 for entries without a pair."""
        chosen = self.rank_offset if rank_offset is None else rank_offset
        return slate_ndcg_terms(u, slate, lowest=self.surrogate.at_zero, rank_offset=chosen)
