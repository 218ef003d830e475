"""Outer functions f of the smooth rank g, and how the relevant items of a batch are averaged."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from songrank.core.slate import Slate
from songrank.functional.ndcg import log_slate_ndcg_terms, slate_ndcg_terms
from songrank.functional.strata import list_counts
from songrank.functional.surrogates import Surrogate
from songrank.losses.base import row_shares


@dataclass(frozen=True)
class Outer(ABC):
    """An outer function: its values and slopes, and the shares of the relevant items in the batch."""

    sign: ClassVar[float] = 1.0
    """Sign of the readable value, which monitoring shows."""
    in_monitoring: ClassVar[Mapping[str, Any]] = {}
    """Options that differ in the readable value."""

    @abstractmethod
    def share(self, slate: Slate, dtype: torch.dtype) -> Tensor:
        """[B, P]: the share of each relevant item in the objective, 0 for entries without a pair."""

    @abstractmethod
    def terms(self, u: Tensor, slate: Slate, surrogate: Surrogate) -> tuple[Tensor, Tensor]:
        """(f, f′), or (f, u f′) from ln u of a surrogate in log space."""

    def readable(self, u: Tensor, slate: Slate, surrogate: Surrogate) -> Tensor:
        """The readable values [B, P]: contributions to NDCG without rank offset, or the negative log-likelihood."""
        return self.sign * replace(self, **self.in_monitoring).terms(u, slate, surrogate)[0]


@dataclass(frozen=True)
class NDCG(Outer):
    """f(g) = (1 − 2^y) / (Z log₂(N g + 1 + o)), summed over a query's relevant items."""

    rank_offset: float | None = None
    sign = -1.0
    in_monitoring = MappingProxyType({"rank_offset": 0.0})

    def share(self, slate: Slate, dtype: torch.dtype) -> Tensor:
        """[B, P]: N_q⁺ / (sampled relevant items) times the query's share, 0 for entries without a pair."""
        active = slate.active
        sampled = active.sum(-1).clamp_min(1).to(dtype)
        share = row_shares(slate, dtype) * slate.num_relevant.to(dtype) / sampled
        return torch.where(active, share.unsqueeze(1), 0.0)

    def terms(self, u: Tensor, slate: Slate, surrogate: Surrogate) -> tuple[Tensor, Tensor]:
        """(f, f′), or (f, u f′) from ln u of a surrogate in log space."""
        terms = log_slate_ndcg_terms if surrogate.in_logs else slate_ndcg_terms
        return terms(u, slate, lowest=surrogate.at_zero, rank_offset=self.rank_offset)


@dataclass(frozen=True)
class Likelihood(Outer):
    """f(g) = factor · ln(N g) of surrogates in log space, averaged over a query's relevant items."""

    factor: float = 1.0

    def share(self, slate: Slate, dtype: torch.dtype) -> Tensor:
        """[B, P]: the query's share divided by its number of sampled relevant items, 0 for entries without a pair."""
        active = slate.active
        sampled = active.sum(-1, keepdim=True).clamp_min(1).to(dtype)
        return torch.where(active, row_shares(slate, dtype).unsqueeze(1) / sampled, 0.0)

    def terms(self, u: Tensor, slate: Slate, surrogate: Surrogate) -> tuple[Tensor, Tensor]:
        """(f, u f′) from ln u of a surrogate in log space."""
        value = torch.where(slate.active, u + torch.log(list_counts(slate, u.dtype)[0]).unsqueeze(1), 0.0)
        slope = torch.ones_like(u)
        return (value, slope) if self.factor == 1.0 else (self.factor * value, self.factor * slope)
