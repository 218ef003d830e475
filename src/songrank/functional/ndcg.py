r"""The outer function of the NDCG objective, f(g) = (1 − 2^y) / (Z · log₂(N g + 1 + o)), and its derivative.

Section 4 of the paper has o = 0. ``rank_offset`` o ≥ 0 makes the objective less top-heavy; it leaves Z as it is, so
that Lemma 1's lower bound still holds (a larger denominator only lowers it).

>>> import torch
>>> ndcg_term(torch.tensor(0.1), torch.tensor(1.0), list_size=10, ideal_dcg=1.0)   # alone on top: rank 1
tensor(-1.)
"""

import math

import torch
from torch import Tensor


def default_rank_offset(list_size: Tensor) -> Tensor:
    """The offset used when none is given, √N: about 61 for MovieLens-1M's 3,706 items, 4 for a list of 20.

    >>> default_rank_offset(torch.tensor([16.0, 3600.0]))
    tensor([ 4., 60.])
    """
    return torch.sqrt(list_size)


def ndcg_term(
    g: Tensor, gain: Tensor, *, list_size: Tensor | float, ideal_dcg: Tensor | float, rank_offset: Tensor | float = 0.0
) -> Tensor:
    """f(g): minus the share of NDCG that an item of this gain earns at the smooth rank N·g.

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
