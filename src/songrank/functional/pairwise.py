"""Losses over pairs of items of one list: RankNet and LambdaRank."""

import torch
from torch import Tensor

from songrank._checks import check_int, check_number
from songrank.functional.gains import Gain, discounts, gains, ideal_dcg
from songrank.functional.lists import pairwise, prepare, reduce_lists, safe_divide


def ranknet_loss(
    scores: Tensor, labels: Tensor, *, mask: Tensor | None = None, reduction: str = "mean", sigma: float = 1.0
) -> Tensor:
    r"""Mean over pairs with y_i > y_j of ln(1 + e^{−σ(s_i − s_j)}) (Burges et al. 2005).

    >>> ranknet_loss(torch.zeros(1, 3), torch.tensor([[2.0, 1.0, 0.0]]))
    tensor(0.6931)
    """
    check_number("sigma", sigma, 0.0, low_open=True)
    scores, labels, mask = prepare(scores, labels, mask)
    better = _better(labels, mask)
    terms = _pair_terms(scores, better, sigma)
    return reduce_lists(safe_divide(terms.sum((-1, -2)), better.sum((-1, -2)).to(terms.dtype)), mask, reduction)


def lambdarank_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: str = "mean",
    sigma: float = 1.0,
    k: int | None = None,
    gain: Gain = "exp2",
) -> Tensor:
    r"""Sum over pairs with y_i > y_j of |ΔNDCG_ij| ln(1 + e^{−σ(s_i − s_j)}) (Burges et al. 2006; Burges 2010).

    |ΔNDCG_ij| = |gain_i − gain_j| · |1/D(r_i) − 1/D(r_j)| / Z is what swapping i and j changes at the present ranks r,
    a constant for the gradient. Among equal scores the less relevant item ranks first, so that a constant scorer has a
    gradient; items equal in score and label share the mean of their ranks, so that their order in memory means
    nothing. With ``k``, positions after k have no discount and Z is that of the top k.

    >>> lambdarank_loss(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]]))            # (1 − 1/log₂3) ln(1 + e)
    tensor(0.4847)
    """
    check_number("sigma", sigma, 0.0, low_open=True)
    scores, labels, mask = prepare(scores, labels, mask)
    with torch.no_grad():
        rank = _label_aware_ranks(scores, labels, mask)
        discount = discounts(rank)
        if k is not None:
            discount = torch.where(rank <= check_int("k", k), discount, 0.0)
        swap = pairwise(gains(labels, gain)).abs() * pairwise(discount).abs()
        delta = safe_divide(swap, ideal_dcg(labels, k=k, gain=gain)[..., None, None].expand(swap.shape))
    terms = _pair_terms(scores, _better(labels, mask), sigma) * delta
    return reduce_lists(terms.sum((-1, -2)), mask, reduction)


def _better(labels: Tensor, mask: Tensor) -> Tensor:
    """[..., i, j]: both are there, and i is more relevant than j."""
    return (labels.unsqueeze(-1) > labels.unsqueeze(-2)) & mask.unsqueeze(-1) & mask.unsqueeze(-2)


def _pair_terms(scores: Tensor, better: Tensor, sigma: float) -> Tensor:
    terms = torch.nn.functional.softplus(-sigma * pairwise(scores), threshold=50.0)
    return torch.where(better, terms, 0.0)


def _label_aware_ranks(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """1 + items above + tied and less relevant items + half of the other items tied in score and label."""
    there = mask.unsqueeze(-2)
    gap = pairwise(scores)
    tied, lead = gap == 0, pairwise(labels)
    above = ((gap < 0) | (tied & (lead > 0))) & there
    equal = tied & (lead == 0) & there
    return above.sum(-1).to(scores.dtype) + 0.5 * (equal.sum(-1).to(scores.dtype) + 1.0)
