"""Likelihood losses: pointwise binary cross-entropy, ListNet, softmax cross-entropy, ListMLE."""

import torch
from torch import Tensor

from songrank.core.checks import check_same_shape
from songrank.core.gains import safe_divide
from songrank.functional.lists import masked_log_softmax, prepare, reduce_lists, take_items
from songrank.functional.ranks import group_starts


def bce_loss(scores: Tensor, labels: Tensor, *, mask: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Binary cross-entropy of σ(score) against 𝕀(y > 0), mean over a list's items; not invariant to a shift of scores.

    >>> bce_loss(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    scores, labels, mask = prepare(scores, labels, mask)
    target = (labels > 0).to(scores.dtype)
    terms = torch.nn.functional.binary_cross_entropy_with_logits(scores, target, reduction="none")
    terms = torch.where(mask, terms, 0.0)
    return reduce_lists(safe_divide(terms.sum(-1), mask.sum(-1).to(terms.dtype)), mask, reduction)


def listnet_loss(scores: Tensor, labels: Tensor, *, mask: Tensor | None = None, reduction: str = "mean") -> Tensor:
    r"""Cross-entropy −Σ_i P_y(i) ln P_s(i) of the top-one probabilities softmax(y) and softmax(s) (Cao et al. 2007).

    >>> listnet_loss(torch.zeros(1, 4), torch.tensor([[1.0, 0.0, 0.0, 0.0]]))     # ln 4
    tensor(1.3863)
    """
    scores, labels, mask = prepare(scores, labels, mask)
    target = torch.where(mask, torch.exp(masked_log_softmax(labels, mask)), 0.0)
    return reduce_lists(-(target * masked_log_softmax(scores, mask)).sum(-1), mask, reduction)


def softmax_loss(
    scores: Tensor, labels: Tensor, *, mask: Tensor | None = None, column: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    r"""Cross-entropy −Σ_i (y_i / Σ y) ln softmax(s)_i; 0 for a list without relevant items.

    >>> softmax_loss(torch.zeros(1, 4), torch.tensor([[3.0, 0.0, 1.0, 0.0]]))     # ln 4
    tensor(1.3863)
    """
    if mask is None and column is not None:  # one tensor of the size of the lists, not several
        check_same_shape("labels", labels, "scores", scores)
        log_chances = torch.log_softmax(scores, -1, dtype=torch.promote_types(scores.dtype, torch.float32))
        mask = torch.ones_like(labels[..., :1], dtype=torch.bool)
    else:
        scores, labels, mask = prepare(scores, labels, mask)
        log_chances = masked_log_softmax(scores, mask)
    label, log_chance = take_items(column, labels, log_chances)
    label = label.to(log_chance.dtype)
    return reduce_lists(-safe_divide((label * log_chance).sum(-1), label.sum(-1)), mask, reduction)


def listmle_loss(scores: Tensor, labels: Tensor, *, mask: Tensor | None = None, reduction: str = "mean") -> Tensor:
    r"""Negative log-likelihood of the label order under Plackett–Luce (Xia et al. 2008), mean over a list's items.

    −Σ_i [ s_i − ln Σ_{j: y_j ≤ y_i} e^{s_j} ] / n. Items with equal labels have the same rivals, each other included
    (Breslow's rule), so no order among them is learned and their input order has no effect.

    >>> listmle_loss(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))                           # (ln 2 + ln 1) / 2
    tensor(0.3466)
    """
    scores, labels, mask = prepare(scores, labels, mask)
    keys = torch.where(mask, labels, torch.full_like(labels, -torch.inf))
    ordered, order = keys.sort(dim=-1, descending=True, stable=True)
    present = ordered > -torch.inf
    # Scores relative to each list's maximum, which cancels, keep precision far from 0. Padding sorts last and is so far
    # below every item that it adds exactly 0.
    top = torch.where(mask, scores, torch.full_like(scores, -torch.inf)).amax(-1, keepdim=True).detach()
    bottom = torch.where(mask, scores, torch.full_like(scores, torch.inf)).amin(-1, keepdim=True).detach()
    value = torch.where(present, scores.gather(-1, order) - top, bottom - top - 1e3)
    value = torch.where(mask.any(-1, keepdim=True), value, 0.0)
    tail = torch.logcumsumexp(value.flip(-1), -1).flip(-1)
    first = group_starts(ordered)
    terms = torch.where(present, tail.gather(-1, first) - value, 0.0)
    return reduce_lists(safe_divide(terms.sum(-1), mask.sum(-1).to(terms.dtype)), mask, reduction)
