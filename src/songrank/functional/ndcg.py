r"""The outer function of the NDCG objective, f(g) = (1 − 2^y) / (Z · log₂(N g + 1 + o)), and its derivative.

Section 4 of the paper has o = 0. ``rank_offset`` o ≥ 0 makes the objective less top-heavy and does not change Z, so
Lemma 1's lower bound still holds.
"""

import math

import torch
from torch import Tensor

from songrank.core.gains import gains
from songrank.core.slate import Slate
from songrank.functional.strata import list_counts


def default_rank_offset(list_size: Tensor) -> Tensor:
    """√N, the default rank offset: about 61 for the 3,706 items of MovieLens-1M, 4 for a list of 20.

    >>> default_rank_offset(torch.tensor([16.0, 3600.0]))
    tensor([ 4., 60.])
    """
    return torch.sqrt(list_size)


def ndcg_term(
    g: Tensor, gain: Tensor, *, list_size: Tensor | float, ideal_dcg: Tensor | float, rank_offset: Tensor | float = 0.0
) -> Tensor:
    """f(g): minus the contribution to NDCG of an item with this gain at the smooth rank N·g.

    >>> ndcg_term(torch.tensor(0.3), torch.tensor(1.0), list_size=10, ideal_dcg=1.0)          # rank 3
    tensor(-0.5000)
    """
    return -gain / (ideal_dcg * torch.log2(list_size * g + 1.0 + rank_offset))


def ndcg_term_slope(
    g: Tensor, gain: Tensor, *, list_size: Tensor | float, ideal_dcg: Tensor | float, rank_offset: Tensor | float = 0.0
) -> Tensor:
    """f′(g) = (2^y − 1)·N / (Z · ln 2 · log₂(r)² · r) with r = N g + 1 + o; positive: a larger rank is worse.

    >>> ndcg_term_slope(torch.tensor(0.3), torch.tensor(1.0), list_size=10, ideal_dcg=1.0)
    tensor(0.9017)
    """
    rank = list_size * g + 1.0 + rank_offset
    return gain * list_size / (ideal_dcg * math.log(2.0) * torch.log2(rank).square() * rank)


def slate_ndcg_terms(u: Tensor, slate: Slate, *, lowest: float, rank_offset: float | None) -> tuple[Tensor, Tensor]:
    """(f(u), f′(u)) of a slate's relevant items [B, P], 0 for entries without a pair; ``rank_offset`` √N if None.

    u is clamped to at least ``lowest``/N: an item's own comparison adds ℓ(0)/N to g, which custom sampling weights may
    omit.
    """
    size, gain, ideal, offset = _constants(slate, u.dtype, rank_offset)
    u = torch.maximum(u, lowest / size)
    value = ndcg_term(u, gain, list_size=size, ideal_dcg=ideal, rank_offset=offset)
    return value, ndcg_term_slope(u, gain, list_size=size, ideal_dcg=ideal, rank_offset=offset)


def log_slate_ndcg_terms(
    log_u: Tensor, slate: Slate, *, lowest: float, rank_offset: float | None
) -> tuple[Tensor, Tensor]:
    """(f(u), u f′(u)) from ln u, without overflow: :func:`slate_ndcg_terms` in log space.

    With r = N u + 1 + o: u f′(u) = (2^y − 1) / (Z ln 2 log₂(r)²) · N u / r. The factor u, by which gradients divide, is
    not clamped.
    """
    size, gain, ideal, offset = _constants(slate, log_u.dtype, rank_offset)
    above = log_u + torch.log(size) - math.log(lowest)
    log_rank = above.clamp_min(0.0) + math.log(lowest)
    offset = offset if isinstance(offset, Tensor) else torch.full_like(size, offset)
    log_start = torch.log1p(offset)
    bits = torch.logaddexp(log_rank, log_start) / math.log(2.0)
    value = -gain / (ideal * bits)
    slope = gain / (ideal * math.log(2.0) * bits.square()) * torch.sigmoid(log_rank - log_start)
    return value, slope * torch.exp(above.clamp_max(0.0))


def _constants(
    slate: Slate, dtype: torch.dtype, rank_offset: float | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | float]:
    """N [B, 1], 2^y − 1 [B, P] (0 for entries without a pair), Z [B, 1] and the rank offset."""
    size = list_counts(slate, dtype)[0].unsqueeze(1)
    offset = default_rank_offset(size) if rank_offset is None else rank_offset
    gain = gains(slate.label.to(dtype).gather(1, slate.column), slate.gain)
    gain = torch.where(slate.active, gain, 0.0)
    ideal = slate.ideal_dcg.to(dtype).unsqueeze(1)
    return size, gain, torch.where(ideal > 0, ideal, torch.ones_like(ideal)), offset
