"""Losses over pairs of items of one list: RankNet, BPR, LambdaRank and LambdaLoss."""

from functools import partial

import torch
from torch import Tensor

from songrank.core.checks import check_int, check_number, check_same_shape
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
    sums, counts = compare_with_rivals(_ranknet_sums, (label, -score), (_rival_labels(labels, mask), scores)).unbind(-1)
    return reduce_lists(safe_divide(sums, counts), mask, reduction)


def bpr_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: str = "mean",
    sigma: float = 1.0,
    weight: Tensor | None = None,
    column: Tensor | None = None,
) -> Tensor:
    r"""Mean over relevant i and irrelevant j of ln(1 + e^{−σ(s_i − s_j)}), Bayesian personalised ranking.

    Rendle et al. 2009. Relevant items of different labels form no pairs. The mean over a sample of relevant and
    irrelevant items is an unbiased estimate of the mean over all pairs of the full list; with ``weight``, pair (i, j)
    has weight w_i w_j, and the weights of all pairs are normalised to sum to 1.

    >>> bpr_loss(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([[1.0, 2.0, 0.0]]))          # (ln(1 + e⁻¹) + ln 2) / 2
    tensor(0.5032)
    """
    check_number("sigma", sigma, 0.0, low_open=True)
    scores, labels, mask = prepare(scores, labels, mask)
    each = mask.to(scores.dtype)
    if weight is not None:
        check_same_shape("weight", weight, "scores", scores)
        each = torch.where(mask, weight.to(scores.dtype), 0.0)
    relevant = labels > 0
    relevant_total = torch.where(relevant, each, 0.0).sum(-1, keepdim=True)
    irrelevant_total = torch.where(relevant, 0.0, each).sum(-1, keepdim=True)
    share = safe_divide(each, torch.where(relevant, relevant_total, irrelevant_total))
    scores = sigma * scores
    label, score, own_share = take_items(column, labels, scores, share)
    rivals = (_rival_labels(labels, mask), scores, share)
    return reduce_lists(compare_with_rivals(_bpr_mean, (label, -score, own_share), rivals), mask, reduction)


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
    return lambda_loss(
        scores, labels, mask=mask, reduction=reduction, sigma=sigma, mu=0.0, k=k, gain=gain, column=column
    )


def lambda_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: str = "mean",
    sigma: float = 1.0,
    mu: float = 10.0,
    k: int | None = None,
    gain: Gain = "exp2",
    column: Tensor | None = None,
) -> Tensor:
    r"""NDCG-Loss2++: sum over pairs with y_i > y_j of (ρ_ij + μ δ_ij) |G_i − G_j| ln(1 + e^{−σ(s_i − s_j)}).

    Wang et al. 2018 (the LambdaLoss framework), with the natural logarithm. G is gain / Z, r the current rank, and

        ρ_ij = |1/D(r_i) − 1/D(r_j)|,    δ_ij = 1/D(d) − 1/D(d + 1)  with d = |r_i − r_j|,    D(r) = log₂(1 + r)

    ρ alone is :func:`lambdarank_loss`, which describes ties; δ alone is NDCG-Loss2, which bounds NDCG. Weights are
    constants for the gradient. With ``k``, ρ and Z are those of NDCG@k, and δ_ij is divided by 1 − 1/D(max(r_i, r_j))
    where max(r_i, r_j) > k (LambdaLoss@K, Jagerman et al. 2022), so pairs below position k keep a weight.

    >>> lambda_loss(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]]), mu=1.0)       # 2 (1 − 1/log₂3) ln(1 + e)
    tensor(0.9694)
    """
    check_number("sigma", sigma, 0.0, low_open=True)
    check_number("mu", mu, 0.0)
    scores, labels, mask = prepare(scores, labels, mask)
    rival_labels = _rival_labels(labels, mask)
    with torch.no_grad():
        rank = _label_aware_ranks(torch.where(mask, scores, -torch.inf), rival_labels)
        discount = discounts(rank)
        if k is not None:
            discount = torch.where(rank <= check_int("k", k), discount, 0.0)
    scores, worth = sigma * scores, gains(labels, gain)
    constants = (worth, discount, rank)
    label, score, *own = take_items(column, labels, scores, *constants)
    compare = partial(_lambda_sum, mu, k)
    totals = compare_with_rivals(compare, (label, -score, *own), (rival_labels, scores, *constants))
    return reduce_lists(safe_divide(totals, ideal_dcg(label, k=k, gain=gain)), mask, reduction)


def _rival_labels(labels: Tensor, mask: Tensor) -> Tensor:
    """Labels with ∞ at padding: no item is more relevant."""
    return torch.where(mask, labels, torch.inf)


def _pair_terms(better: Tensor, minus_score: Tensor, rival_score: Tensor) -> Tensor:
    """softplus(s_j − s_i) where i is better; s_i is given negated, which saves a backward pass over pairs."""
    return torch.where(better, torch.nn.functional.softplus(rival_score + minus_score, threshold=50.0), 0.0)


def _ranknet_sums(label: Tensor, minus_score: Tensor, rival_label: Tensor, rival_score: Tensor) -> Tensor:
    """[..., 2]: the sum over pairs, and their number."""
    better = label > rival_label
    terms = _pair_terms(better, minus_score, rival_score)
    return torch.stack((terms.sum((-1, -2)), better.sum((-1, -2)).to(terms.dtype)), -1)


def _bpr_mean(
    label: Tensor, minus_score: Tensor, share: Tensor, rival_label: Tensor, rival_score: Tensor, rival_share: Tensor
) -> Tensor:
    terms = _pair_terms((label > 0) & (rival_label <= 0), minus_score, rival_score)
    return ((terms * rival_share).sum(-1, keepdim=True) * share).sum((-1, -2))


def _lambda_sum(
    mu: float,
    k: int | None,
    label: Tensor,
    minus_score: Tensor,
    worth: Tensor,
    discount: Tensor,
    rank: Tensor,
    rival_label: Tensor,
    rival_score: Tensor,
    rival_worth: Tensor,
    rival_discount: Tensor,
    rival_rank: Tensor,
) -> Tensor:
    surplus = worth - rival_worth
    weight = (surplus * (discount - rival_discount)).abs()
    if mu:
        weight = weight + mu * surplus.abs() * _distance_weight(rank, rival_rank, k)
    return (_pair_terms(label > rival_label, minus_score, rival_score) * weight).sum((-1, -2))


def _distance_weight(rank: Tensor, rival_rank: Tensor, k: int | None) -> Tensor:
    """δ of :func:`lambda_loss`; items of different labels have ranks at least 1 apart."""
    distance = (rank - rival_rank).abs().clamp_min(1.0)
    weight = discounts(distance) - discounts(distance + 1.0)
    if k is None:
        return weight
    last = torch.maximum(rank, rival_rank).clamp_min(2.0)
    return torch.where(last > k, weight / (1.0 - discounts(last)), weight)


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
