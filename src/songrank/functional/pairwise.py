"""Losses over pairs of items of one list: RankNet and LambdaRank."""

import torch
from torch import Tensor

from songrank.core.checks import check_int, check_number
from songrank.core.gains import Gain, discounts, gains, ideal_dcg, safe_divide
from songrank.functional.lists import compare_with_rivals, prepare, reduce_lists, take_items


def ranknet_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: str = "mean",
    sigma: float = 1.0,
    column: Tensor | None = None,
) -> Tensor:
    r"""Mean over pairs with y_i > y_j of ln(1 + e^{−σ(s_i − s_j)}) (Burges et al. 2005).

    >>> ranknet_loss(torch.zeros(1, 3), torch.tensor([[2.0, 1.0, 0.0]]))
    tensor(0.6931)
    """
    check_number("sigma", sigma, 0.0, low_open=True)
    scores, labels, mask = prepare(scores, labels, mask)
    scores = sigma * scores
    label, score = take_items(column, labels, scores)
    means = compare_with_rivals(_ranknet_mean, (label, -score), (_rival_labels(labels, mask), scores))
    return reduce_lists(means, mask, reduction)


def lambdarank_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: str = "mean",
    sigma: float = 1.0,
    k: int | None = None,
    gain: Gain = "exp2",
    column: Tensor | None = None,
) -> Tensor:
    r"""Sum over pairs with y_i > y_j of |ΔNDCG_ij| ln(1 + e^{−σ(s_i − s_j)}) (Burges et al. 2006; Burges 2010).

    |ΔNDCG_ij| = |gain_i − gain_j| · |1/D(r_i) − 1/D(r_j)| / Z is the change if i and j swap their current ranks r,
    a constant for the gradient. Among equal scores the less relevant item ranks first, so that a constant scorer has a
    gradient; items equal in score and label share the mean of their ranks. With ``k``, positions after k have discount
    0 and Z is that of the top k.

    >>> lambdarank_loss(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]]))            # (1 − 1/log₂3) ln(1 + e)
    tensor(0.4847)
    """
    check_number("sigma", sigma, 0.0, low_open=True)
    scores, labels, mask = prepare(scores, labels, mask)
    rival_labels = _rival_labels(labels, mask)
    with torch.no_grad():
        rank = _label_aware_ranks(torch.where(mask, scores, -torch.inf), rival_labels)
        discount = discounts(rank)
        if k is not None:
            discount = torch.where(rank <= check_int("k", k), discount, 0.0)
    scores, worth = sigma * scores, gains(labels, gain)
    label, score, *constants = take_items(column, labels, scores, worth, discount)
    totals = compare_with_rivals(_lambdarank_sum, (label, -score, *constants), (rival_labels, scores, worth, discount))
    return reduce_lists(safe_divide(totals, ideal_dcg(label, k=k, gain=gain)), mask, reduction)


def _rival_labels(labels: Tensor, mask: Tensor) -> Tensor:
    """Labels with ∞ at padding: no item is more relevant."""
    return torch.where(mask, labels, torch.inf)


def _pair_terms(better: Tensor, minus_score: Tensor, rival_score: Tensor) -> Tensor:
    """softplus(s_j − s_i) where i is better; s_i is given negated, which saves a backward pass over pairs."""
    return torch.where(better, torch.nn.functional.softplus(rival_score + minus_score, threshold=50.0), 0.0)


def _ranknet_mean(label: Tensor, minus_score: Tensor, rival_label: Tensor, rival_score: Tensor) -> Tensor:
    better = label > rival_label
    terms = _pair_terms(better, minus_score, rival_score)
    return safe_divide(terms.sum((-1, -2)), better.sum((-1, -2)).to(terms.dtype))


def _lambdarank_sum(
    label: Tensor,
    minus_score: Tensor,
    worth: Tensor,
    discount: Tensor,
    rival_label: Tensor,
    rival_score: Tensor,
    rival_worth: Tensor,
    rival_discount: Tensor,
) -> Tensor:
    swap = ((worth - rival_worth) * (discount - rival_discount)).abs()
    return (_pair_terms(label > rival_label, minus_score, rival_score) * swap).sum((-1, -2))


def _label_aware_ranks(scores: Tensor, labels: Tensor) -> Tensor:
    """Ranks by descending score, then ascending label (padding: score −∞, label ∞); ties share their mean."""
    label, by_label = labels.sort(dim=-1)
    score, by_score = scores.gather(-1, by_label).sort(dim=-1, descending=True, stable=True)
    label, order = label.gather(-1, by_score), by_label.gather(-1, by_score)
    differs = (score[..., 1:] != score[..., :-1]) | (label[..., 1:] != label[..., :-1])
    size = scores.shape[-1]
    place = torch.arange(1, size + 1, device=scores.device)
    begins, ends = (torch.nn.functional.pad(differs, side, value=True) for side in ((1, 0), (0, 1)))
    first = torch.where(begins, place, 0).cummax(-1).values
    last = torch.where(ends, place, size).flip(-1).cummin(-1).values.flip(-1)
    return torch.empty_like(scores).scatter_(-1, order, (first + last).to(scores.dtype) / 2)
