r"""Losses of sampled negatives that are calibrated to the full list: gBCE and softmax with logQ correction.

N items of the full list, N⁺ of them relevant, are ``list_size`` and ``num_relevant``; m⁺ relevant and m⁻ irrelevant
items are in the sample. Without ``list_size`` and ``num_relevant``, a list is its own full list.
"""

import torch
from torch import Tensor

from songrank.core.checks import check_number, check_same_shape, fail
from songrank.core.gains import safe_divide
from songrank.functional.lists import prepare, reduce_lists, take_items
from songrank.functional.listwise import softmax_loss
from songrank.functional.strata import rival_weights


def gbce_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: str = "mean",
    t: float = 0.75,
    list_size: Tensor | None = None,
    num_relevant: Tensor | None = None,
) -> Tensor:
    r"""Generalised binary cross-entropy, −[β · mean_i ln σ(s_i) + Σ_j ln(1 − σ(s_j))] / (1 + m⁻).

    Petrov & Macdonald 2023 (gSASRec). Each relevant item i is a training example with all irrelevant items j of the
    sample as its negatives; the value is the mean over these examples, 0 for a list without relevant items. β corrects
    the overconfidence of binary cross-entropy on sampled negatives:

        α = m⁻ / (N − N⁺),    β = α (t (1 − 1/α) + 1/α) = 1 − t (1 − α)

    t = 0 is binary cross-entropy on the sample; t = 1 gives the probabilities that training on all negatives gives.
    With whole lists α = β = 1. The score is not transformed: β multiplies ln σ(s_i), which is stable for all scores.

    >>> gbce_loss(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]), t=1.0)
    tensor(0.6931)
    >>> sizes = {"list_size": torch.tensor([11]), "num_relevant": torch.tensor([1])}                   # α = β = 1/10
    >>> gbce_loss(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]), t=1.0, **sizes)                     # 1.1 / 2 · ln 2
    tensor(0.3812)
    """
    check_number("t", t, 0.0, 1.0)
    scores, labels, mask = prepare(scores, labels, mask)
    relevant = labels > 0
    size, total = _full_list(labels, mask, list_size, num_relevant)
    examples = relevant.sum(-1).to(scores.dtype)
    negatives = mask.sum(-1).to(scores.dtype) - examples
    rate = torch.where(size > total, negatives / (size - total).clamp_min(1.0), 1.0)
    beta = 1.0 - t * (1.0 - rate)
    terms = -torch.nn.functional.logsigmoid(torch.where(relevant, scores, -scores))
    weight = torch.where(relevant, safe_divide(beta, examples).unsqueeze(-1), 1.0)
    value = torch.where(mask, weight * terms, 0.0).sum(-1) / (1.0 + negatives)
    return reduce_lists(torch.where(examples > 0, value, 0.0), mask, reduction)


def sampled_softmax_loss(
    scores: Tensor,
    labels: Tensor,
    *,
    mask: Tensor | None = None,
    reduction: str = "mean",
    list_size: Tensor | None = None,
    num_relevant: Tensor | None = None,
    weight: Tensor | None = None,
    column: Tensor | None = None,
) -> Tensor:
    r"""Softmax cross-entropy with logQ correction, Σ_i (y_i / Σ y) (ln Z_i − s_i); 0 for a list without relevant items.

    Z_i estimates the partition function of the full list from the sample: item j stands for c_ij items, so ln c_ij is
    added to its logit (Bengio & Senécal 2008; Yi et al. 2019).

        Z_i = Σ_j c_ij e^{s_j},    c_ii = 1,    (N⁺ − 1)/(m⁺ − 1) for other relevant j,    N⁻/m⁻ for irrelevant j

    The target is counted once and exactly; the other sampled relevant items stand for the N⁺ − 1 others. Z_i is
    unbiased, ln Z_i is not. With ``weight``, c_ij = N · weight_j for all j, the target included. For whole lists the
    value is that of :func:`songrank.functional.softmax_loss`. All Z_i of a list share one sum, so the cost is O(L).

    >>> scores, labels = torch.zeros(1, 3), torch.tensor([[1.0, 0.0, 0.0]])
    >>> sampled_softmax_loss(scores, labels, list_size=torch.tensor([9]), num_relevant=torch.tensor([1]))         # ln 9
    tensor(2.1972)
    """
    if list_size is None and num_relevant is None and weight is None:
        return softmax_loss(scores, labels, mask=mask, column=column, reduction=reduction)
    scores, labels, mask = prepare(scores, labels, mask)
    size, total = _full_list(labels, mask, list_size, num_relevant)
    given = None
    if weight is not None:
        check_same_shape("weight", weight, "scores", scores)
        given = weight.to(scores.dtype)
    each, own = (size.unsqueeze(-1) * part for part in rival_weights(labels, mask, size, total, weight=given))
    top = torch.where(mask & ((each > 0) | (labels > 0)), scores, -torch.inf).amax(-1, keepdim=True).detach()
    top = torch.where(top == -torch.inf, 0.0, top)
    mass = each * torch.exp(torch.where(each > 0, scores - top, -torch.inf))
    label, score, own_each = take_items(column, labels, scores, each)
    target = torch.exp((score - top).clamp_max(0.0))
    others = (mass.sum(-1, keepdim=True) - own_each * target).clamp_min(0.0)
    partition = (others + (own_each + own) * target).clamp_min(torch.finfo(scores.dtype).tiny)
    costs = torch.log(partition) + (top - score)
    return reduce_lists(safe_divide((label * costs).sum(-1), label.sum(-1)), mask, reduction)


def _full_list(
    labels: Tensor, mask: Tensor, list_size: Tensor | None, num_relevant: Tensor | None
) -> tuple[Tensor, Tensor]:
    """(N, N⁺) of each list; N is at least 1, for rows of padding."""
    shape = labels.shape[:-1]
    for name, count in (("list_size", list_size), ("num_relevant", num_relevant)):
        if count is not None and count.shape != shape:
            fail(f"{name}.shape", list(count.shape), f"one count per list, {list(shape)}")
    size = mask.sum(-1) if list_size is None else list_size
    relevant = (labels > 0).sum(-1) if num_relevant is None else num_relevant
    return size.to(labels.dtype).clamp_min(1.0), relevant.to(labels.dtype)
