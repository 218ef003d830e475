"""Losses that look at one item at a time."""

import torch
from torch import Tensor

from songrank.core.gains import safe_divide
from songrank.functional.lists import prepare, reduce_lists


def bce_loss(scores: Tensor, labels: Tensor, *, mask: Tensor | None = None, reduction: str = "mean") -> Tensor:
    """Binary cross-entropy of σ(score) against 𝕀(y > 0), mean over a list's items. The one loss here that a shift
    of all scores changes.

    >>> bce_loss(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    scores, labels, mask = prepare(scores, labels, mask)
    target = (labels > 0).to(scores.dtype)
    terms = torch.nn.functional.binary_cross_entropy_with_logits(scores, target, reduction="none")
    terms = torch.where(mask, terms, 0.0)
    return reduce_lists(safe_divide(terms.sum(-1), mask.sum(-1).to(terms.dtype)), mask, reduction)
