"""Exact ranks by score, under three tie policies, and their smooth surrogate ḡ."""

import torch
from torch import Tensor

from songrank.core.checks import check_choice, check_same_shape
from songrank.functional.lists import pairwise, prepare
from songrank.functional.surrogates import Surrogate

TIES = ("pessimistic", "average", "stable")


def rank_span(scores: Tensor, *, mask: Tensor | None = None, ties: str = "pessimistic") -> tuple[Tensor, Tensor]:
    r"""First and last possible position (from 1) of each item in its list, over the last axis.

    ``pessimistic``: both are the number of items that score at least as high (the paper's r(w; x, S_q)), the end of the
    tied group. ``stable``: both are the position in a stable descending sort. ``average``: the two ends of the tied
    group. NaN scores rank as −∞; padding ranks after all items.
    """
    check_choice("ties", ties, TIES)
    size = scores.shape[-1]
    least = torch.float32 if scores.is_floating_point() else torch.float64
    scores = scores.to(torch.promote_types(scores.dtype, least))
    limits = torch.finfo(scores.dtype)
    keys = torch.nan_to_num(scores, nan=limits.min, posinf=limits.max, neginf=limits.min)
    if mask is not None:
        check_same_shape("mask", mask, "scores", scores)
        keys = torch.where(mask, keys, torch.full_like(keys, -torch.inf))
    ordered, order = keys.sort(dim=-1, descending=True, stable=True)
    position = torch.arange(size, device=scores.device).expand(ordered.shape)
    if ties == "stable":
        first = last = position
    else:
        first = group_starts(ordered)
        last = size - 1 - group_starts(ordered.flip(-1)).flip(-1)
        if ties == "pessimistic":
            first = last
    return _unsort(first, order) + 1, _unsort(last, order) + 1


def group_starts(ordered: Tensor) -> Tensor:
    """First position of an equal value, for each position of a sorted last axis."""
    place = torch.arange(ordered.shape[-1], device=ordered.device).expand(ordered.shape)
    begins = torch.ones_like(ordered, dtype=torch.bool)
    begins[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    return torch.where(begins, place, 0).cummax(-1).values


def _unsort(values: Tensor, order: Tensor) -> Tensor:
    return torch.empty_like(values).scatter_(-1, order, values)


def ranks(scores: Tensor, *, mask: Tensor | None = None, ties: str = "pessimistic") -> Tensor:
    """Rank of each item in its list, from 1; int64, or float for ``ties="average"`` (the middle of the tied group).

    >>> scores = torch.tensor([0.3, 0.9, 0.3])
    >>> ranks(scores), ranks(scores, ties="stable"), ranks(scores, ties="average")
    (tensor([3, 1, 3]), tensor([2, 1, 3]), tensor([2.5000, 1.0000, 2.5000]))
    """
    first, last = rank_span(scores, mask=mask, ties=ties)
    return (first + last) / 2 if ties == "average" else last


def smooth_ranks(
    scores: Tensor,
    *,
    mask: Tensor | None = None,
    surrogate: str = "squared_hinge",
    margin: float = 1.0,
    temperature: float = 1.0,
) -> Tensor:
    r"""ḡ(w; x, S_q) = Σ_{x'} ℓ(h(x') − h(x)), section 4 of the paper; differentiable, O(L²) on the last axis.

    >>> smooth_ranks(torch.tensor([2.0, 0.0]))
    tensor([ 1., 10.])
    """
    scores, _, mask = prepare(scores, torch.zeros_like(scores), mask)
    terms = Surrogate(surrogate, margin, temperature)(-pairwise(scores))
    return torch.where(mask.unsqueeze(-2), terms, 0.0).sum(-1)
