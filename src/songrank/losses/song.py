"""SONG: stochastic optimisation of NDCG (Algorithm 1 of the paper)."""

from __future__ import annotations

import torch
from torch import Tensor

from songrank.core.checks import check_choice, check_number, fail
from songrank.core.gains import gains
from songrank.core.slate import Slate
from songrank.functional.ndcg import default_rank_offset, ndcg_term, ndcg_term_slope
from songrank.functional.strata import ESTIMATORS
from songrank.functional.surrogates import Surrogate
from songrank.losses.base import MemoryLoss, Rows, attach_gradient, list_counts, present_scores, row_shares
from songrank.losses.memory import MemoryTable, moving_average, seen
from songrank.losses.rank_terms import RankTerms
from songrank.losses.registry import register
from songrank.losses.traits import Traits


@register("song")
class SONG(MemoryLoss):
    r"""NDCG as a loss: Algorithm 1, with one remembered number u per relevant pair.

    With ĝ_i the slate's unbiased estimate of the smooth rank g_i / N of relevant item i (``functional.strata``):

        u_i  ← ĝ_i at the first visit, else (1 − γ) u_i + γ ĝ_i
        f(g) = (1 − 2^y) / (Z_q log₂(N g + 1 + o))
        G    = mean over queries of N_q⁺ · mean over sampled i of f′(u_i) ∇ĝ_i

    The returned value is the estimate of F(w) = mean_q Σ_i f(u_i), so it falls from 0 towards −1 (with o = 0) as the
    ranking gets better; its autograd gradient is G. With full lists and γ = 1 both are exact.

    Args:
        num_pairs: relevant pairs of the task, ``relevance.num_pairs``.
        gamma: γ in (0, 1], weight of the newest estimate; 1 is the biased mini-batch form.
        surrogate: ℓ, by name (``functional.surrogates``).
        margin: c of the hinge surrogates.
        rank_offset: o ≥ 0; ``None`` for √N of each list; 0 is the paper's objective.
        lagged: use u from before this visit in f′, as Algorithm 1 is written.
        estimator: ``"strata"`` (unbiased) or ``"plain"``, the mean over the slate, for comparison only.
        pair_range: the rows held here, ``relevance.pair_range``; all by default.
        dtype: precision of the memory, float32 or float64.
        validate: check the values of every slate (see :class:`RankingLoss`).

    >>> from songrank import SONG, Slate
    >>> labels = torch.tensor([[1.0, 0.0, 0.0]])
    >>> slate = Slate.from_batch(labels, query=torch.tensor([0]), pair=torch.tensor([[0, -1, -1]]))
    >>> scores = torch.tensor([[0.0, 1.0, -3.0]], requires_grad=True)
    >>> loss = SONG(num_pairs=1, rank_offset=0.0)
    >>> loss(scores, slate).backward()
    >>> scores.grad[0, 0] < 0 < scores.grad[0, 1]                  # push the relevant item up, its rival down
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

    def __init__(
        self,
        num_pairs: int,
        gamma: float = 0.1,
        surrogate: str = "squared_hinge",
        margin: float = 1.0,
        rank_offset: float | None = None,
        *,
        lagged: bool = False,
        estimator: str = "strata",
        pair_range: tuple[int, int] | None = None,
        dtype: torch.dtype = torch.float32,
        validate: bool = False,
    ) -> None:
        super().__init__(gamma, validate=validate)
        self.surrogate = Surrogate(surrogate, margin)
        self.rank_offset = None if rank_offset is None else check_number("rank_offset", rank_offset, 0.0)
        self.lagged = bool(lagged)
        self.estimator = check_choice("estimator", estimator, ESTIMATORS)
        self.u = MemoryTable(num_pairs, pair_range, dtype=dtype, name="pairs")

    def check(self, scores: Tensor, slate: Slate) -> None:
        """Raise unless scores, slate and this loss's k fit together."""
        super().check(scores, slate)
        if slate.k != self.k:
            fail("slate.k", slate.k, f"the k of this loss, {self.k} (ideal_dcg is for that k)")

    def step(self, scores: Tensor, slate: Slate, rows: Rows) -> tuple[Tensor, Rows]:
        """Pure: the loss and the new u of this slate's pairs."""
        h = present_scores(scores, slate, self._working_type(scores))
        with torch.no_grad():
            terms, old, new = self._ranks(h.detach(), slate, rows)
            share = self._pair_share(slate, h.dtype)
            value, slope = self._ndcg(self._in_use(old, new), slate, h.dtype)
            gradient = terms.gradient(share * slope)
            total = (share * value).sum()
        return attach_gradient(total, h, gradient), {"u": new}

    def _objective(self, h: Tensor, slate: Slate, rows: Rows) -> Tensor:
        """Estimated NDCG of the batch (a lower bound, for surrogates with ℓ(0) ≥ 1), with rank offset 0."""
        _, _, new = self._ranks(h, slate, rows)
        value, _ = self._ndcg(new, slate, h.dtype, rank_offset=0.0)
        return -(self._pair_share(slate, h.dtype) * value).sum()

    # ---- shared with K-SONG

    def _ranks(self, h: Tensor, slate: Slate, rows: Rows) -> tuple[RankTerms, Tensor, Tensor]:
        terms = RankTerms.of(h, slate, self.surrogate, self.estimator)
        old = rows["u"].to(h.dtype)
        return terms, old, moving_average(old, terms.estimate, self.gamma)

    def _in_use(self, old: Tensor, new: Tensor) -> Tensor:
        return torch.where(seen(old), old, new) if self.lagged else new

    def _pair_share(self, slate: Slate, dtype: torch.dtype) -> Tensor:
        """[B, P]: N_q⁺ / (sampled relevant items) times the query's share, 0 for entries without a pair."""
        active = slate.active
        sampled = active.sum(-1).clamp_min(1).to(dtype)
        share = row_shares(slate, dtype) * list_counts(slate, dtype)[1] / sampled
        return torch.where(active, share.unsqueeze(1), 0.0)

    def _ndcg(
        self, u: Tensor, slate: Slate, dtype: torch.dtype, rank_offset: float | None = None
    ) -> tuple[Tensor, Tensor]:
        """(f(u), f′(u)), 0 for entries without a pair."""
        size = list_counts(slate, dtype)[0].unsqueeze(1)
        chosen = self.rank_offset if rank_offset is None else rank_offset
        offset = default_rank_offset(size) if chosen is None else chosen
        gain = gains(slate.label.to(dtype).gather(1, slate.column), slate.gain)
        gain = torch.where(slate.active, gain, 0.0)
        ideal = slate.ideal_dcg.to(dtype).unsqueeze(1)
        ideal = torch.where(ideal > 0, ideal, torch.ones_like(ideal))
        # An item's own comparison alone puts ℓ(0)/N into g; own sampling weights may leave it out.
        u = torch.maximum(u, self.surrogate.at_zero / size)
        value = ndcg_term(u, gain, list_size=size, ideal_dcg=ideal, rank_offset=offset)
        return value, ndcg_term_slope(u, gain, list_size=size, ideal_dcg=ideal, rank_offset=offset)
