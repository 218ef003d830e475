"""Smooth ranks ĝ in log space, and their gradient in closed form, for the surrogates with a temperature.

For ℓ(x) = exp(x/τ), the sums over j of different relevant items i of a list factor,

    Σ_j w_j exp((h_j − h_i)/τ) = exp(−h_i/τ) Σ_j w_j exp(h_j/τ),

and differ only in i's own term: the cost is O(L) per list instead of O(P·L).
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from songrank.core.slate import Slate
from songrank.functional.rank_terms import Chunk, add_up, assemble, comparison_chunks
from songrank.functional.strata import list_counts, rival_weights, slate_lists
from songrank.functional.surrogates import Surrogate

Rivals = Literal["all", "irrelevant"]
"""The items j in the sum of ĝ: all items of the list, i included, or the irrelevant ones."""
_LARGEST = 60.0
"""Limit of log ĝ − log u in a gradient, reached only if u is from before a change of the scores by many τ."""


@dataclass(frozen=True)
class ExponentialTerms:
    """log ĝ [B, P] of ℓ(x) = exp(x/τ) and the inputs of its gradient, in O(L) per list.

    ``mass`` [B, L] is w_j exp((h_j − top)/τ); ``pulled`` [B, P] is its sum over the rivals of i, and i's own column.
    ``moved`` is the derivative of log ĝ along a given change of the scores.
    """

    estimate: Tensor
    mass: Tensor
    pulled: Tensor
    height: Tensor
    column: Tensor
    active: Tensor
    temperature: float
    moved: Tensor | None = None

    @classmethod
    def of(
        cls,
        scores: Tensor,
        slate: Slate,
        surrogate: Surrogate,
        estimator: str,
        change: Tensor | None = None,
        rivals: Rivals = "all",
    ) -> "ExponentialTerms":
        """Compare each relevant item with every rival."""
        h = scores if surrogate.temperature == 1.0 else scores / surrogate.temperature
        weight, own = _weights(slate, h.dtype, estimator, rivals)
        by_mask = rivals == "all" and slate.weight is None
        present = slate.mask.expand(h.shape) if by_mask else weight > 0
        filled = (slate.rows_present if by_mask else present.any(-1)).unsqueeze(1)
        top = torch.where(filled, torch.where(present, h, -torch.inf).amax(-1, keepdim=True), 0.0)
        mass = weight * torch.exp((h - top).clamp_max(0.0))  # only columns that do not count can lie above the top
        active = slate.active
        relevant = torch.where(active, h.gather(1, slate.column), top)
        itself = torch.exp((relevant - top).clamp_max(0.0))
        # Column i's share of its own sum is replaced by the exact 1/N, which is also the lower bound.
        own_mass = weight.gather(1, slate.column) * itself
        others = (mass.sum(-1, keepdim=True) - own_mass).clamp_min(0.0)
        exact = own_mass + own * itself
        total = (others + exact).clamp_min(torch.finfo(h.dtype).tiny)
        height = top - relevant
        moved = None
        if change is not None:
            ahead = (mass * change).sum(-1, keepdim=True) - own_mass * change.gather(1, slate.column)
            moved = (ahead - others * change.gather(1, slate.column)) / (total * surrogate.temperature)
        estimate = torch.log(total) + height
        if rivals == "irrelevant":  # a list without rivals has the value ln 1
            size = list_counts(slate, h.dtype)[0].unsqueeze(1)
            estimate = torch.where(filled, estimate, -torch.log(size))
        kept = mass, others + own_mass, height, slate.column, active
        return cls(estimate, *kept, surrogate.temperature, moved)

    def gradient(self, coefficient: Tensor, log_u: Tensor) -> Tensor:
        """[B, L]: Σ_i coefficient_i · ∇ĝ_i / u_i with respect to the scores."""
        scale = torch.exp((self.height - log_u).clamp_max(_LARGEST))
        inverse = torch.where(self.active, coefficient * scale, 0.0)
        gradient = self.mass * inverse.sum(-1, keepdim=True)
        gradient = gradient.scatter_add(1, self.column, -inverse * self.pulled)
        return gradient if self.temperature == 1.0 else gradient / self.temperature


@dataclass(eq=False)
class PowerTerms:
    """log ĝ [B, P] of any surrogate in log space; the comparisons [B, P, L] are computed in chunks."""

    estimate: Tensor
    scores: Tensor
    relevant: Tensor
    weight: Tensor
    own: Tensor
    column: Tensor
    active: Tensor
    surrogate: Surrogate
    parts: list[Chunk]
    moved: Tensor | None = None

    @classmethod
    def of(
        cls,
        scores: Tensor,
        slate: Slate,
        surrogate: Surrogate,
        estimator: str,
        change: Tensor | None = None,
        rivals: Rivals = "all",
    ) -> "PowerTerms":
        """Compare each relevant item with every rival."""
        weight, own = _weights(slate, scores.dtype, estimator, rivals)
        terms = cls(
            scores.new_zeros(slate.column.shape),
            scores,
            scores.gather(1, slate.column),
            weight,
            weight.gather(1, slate.column) + own,
            slate.column,
            slate.active,
            surrogate,
            comparison_chunks(scores, slate.column.shape[1]),
        )
        sums, moves = [], []
        for part in terms.parts:
            mass, slope, top = terms._masses(part)
            total = mass.sum(-1).clamp_min(torch.finfo(scores.dtype).tiny)
            sums.append(torch.log(total) + top)
            if change is not None:
                here = change[part.rows]
                apart = here.unsqueeze(1) - here.gather(1, slate.column[part]).unsqueeze(2)
                moves.append((mass * slope * apart).sum(-1) / total)
        terms.estimate = assemble(terms.parts, sums)
        terms.moved = assemble(terms.parts, moves) if moves else None
        return terms

    def gradient(self, coefficient: Tensor, log_u: Tensor) -> Tensor:
        """[B, L]: Σ_i coefficient_i · ∇ĝ_i / u_i with respect to the scores."""
        pushes, pulls = [], []
        for part in self.parts:
            mass, slope, top = self._masses(part)
            scale = torch.exp((top - log_u[part]).clamp_max(_LARGEST))
            inverse = torch.where(self.active[part], coefficient[part] * scale, 0.0)
            push = mass * slope
            pushes.append(torch.bmm(inverse.unsqueeze(1), push).squeeze(1))
            pulls.append(inverse * push.sum(-1))
        pushed = add_up(self.parts, pushes)
        return pushed.scatter_add_(1, self.column, -assemble(self.parts, pulls))

    def _masses(self, part: Chunk) -> tuple[Tensor, Tensor, Tensor]:
        """w_j ℓ(h_j − h_i) / e^top [rows, items, L], (ln ℓ)′, and ``top`` [rows, items], the largest ln ℓ."""
        difference = self.scores[part.rows].unsqueeze(1) - self.relevant[part].unsqueeze(2)
        log_value, slope = self.surrogate.log_value_and_slope(difference)
        weight = self.weight[part.rows].unsqueeze(1)
        top = torch.where(weight > 0, log_value, -torch.inf).amax(-1).clamp_min(0.0)
        mass = weight * torch.exp((log_value - top.unsqueeze(2)).clamp_max(0.0))
        own = (self.own[part] * torch.exp(-top)).unsqueeze(2)
        return mass.scatter(2, self.column[part].unsqueeze(2), own), slope, top


LogTerms = ExponentialTerms | PowerTerms


def log_rank_terms(
    scores: Tensor,
    slate: Slate,
    surrogate: Surrogate,
    estimator: str,
    change: Tensor | None = None,
    rivals: Rivals = "all",
) -> LogTerms:
    """The terms of log ĝ, by the fastest method for the surrogate."""
    kind = ExponentialTerms if surrogate.name == "exponential" else PowerTerms
    return kind.of(scores, slate, surrogate, estimator, change, rivals)


def _weights(slate: Slate, dtype: torch.dtype, estimator: str, rivals: Rivals) -> tuple[Tensor, Tensor]:
    """``rival_weights`` of the slate; without relevant rivals, only those of irrelevant columns."""
    column, own = rival_weights(**slate_lists(slate, dtype), estimator=estimator)
    if rivals == "all":
        return column, own
    return torch.where(slate.label > 0, 0.0, column), torch.zeros_like(own)
