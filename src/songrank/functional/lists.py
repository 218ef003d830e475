"""What the list losses share: masks, working precision, and what happens to a list with nothing in it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from songrank.core.checks import check_choice, check_same_shape, fail

REDUCTIONS = ("mean", "sum", "none")
_IN_MEMORY = 2**26
"""Comparisons at a time; 256 MB in float32 for each tensor of them."""


def prepare(scores: Tensor, labels: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """(scores, labels, mask) of one shape, at least float32, scores and labels 0 at padding."""
    check_same_shape("labels", labels, "scores", scores)
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device).expand(scores.shape)
    check_same_shape("mask", mask, "scores", scores)
    if mask.dtype != torch.bool:
        fail("mask", mask.dtype, "type torch.bool", TypeError)
    dtype = torch.promote_types(scores.dtype, torch.float32)
    scores = torch.where(mask, scores, 0.0).to(dtype)
    return scores, torch.where(mask, labels.to(dtype), 0.0), mask


def reduce_lists(values: Tensor, mask: Tensor, reduction: str) -> Tensor:
    """Mean over the lists that hold an item, their sum, or one value a list (0 for a list that holds none)."""
    check_choice("reduction", reduction, REDUCTIONS)
    present = mask.any(-1)
    values = torch.where(present, values, 0.0)
    if reduction == "none":
        return values
    return values.sum() if reduction == "sum" else values.sum() / present.sum().clamp_min(1)


def masked_log_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Log softmax over the items that are there; 0 at padding and in a list that holds nothing."""
    nothing = torch.where(mask.any(-1, keepdim=True), -torch.inf, 0.0).to(scores.dtype)
    lowest = torch.where(mask, scores, nothing)
    return torch.where(mask, torch.log_softmax(lowest, -1), 0.0)


def pairwise(values: Tensor) -> Tensor:
    """[..., i, j] = values_i − values_j."""
    return values.unsqueeze(-1) - values.unsqueeze(-2)


def take_items(column: Tensor | None, labels: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
    """Labels and values [..., P] of the items in these columns, with label 0 where a column is −1; all if None.

    >>> take_items(torch.tensor([2, -1]), torch.tensor([1.0, 0.0, 3.0]), torch.tensor([0.1, 0.2, 0.3]))
    (tensor([3., 0.]), tensor([0.3000, 0.1000]))
    """
    if column is None:
        return labels, *values
    if column.dtype != torch.int64:
        fail("column", column.dtype, "type torch.int64", TypeError)
    if column.shape[:-1] != labels.shape[:-1]:
        fail("column", list(column.shape), f"[…, P] with … as in labels, {list(labels.shape)}")
    at = column.clamp_min(0)
    taken = (value.gather(-1, at.expand(*value.shape[:-1], at.shape[-1])) for value in values)
    return torch.where(column < 0, 0.0, labels.gather(-1, at)), *taken


def compare_with_rivals(compare: Callable[..., Tensor], items: Sequence[Tensor], rivals: Sequence[Tensor]) -> Tensor:
    """``compare(*items, *rivals)`` for items [..., P, 1] against rivals [..., 1, L]; what it gives begins with the ….

    Where there are too many comparisons for the memory, a few lists are compared at a time, and nothing of size P × L
    is kept for the gradient: it makes each part again.

    >>> compare_with_rivals(lambda one, other: (other > one).sum(-1), [torch.tensor([2.0])], [torch.tensor([1.0, 3.0])])
    tensor([1])
    """
    leading, of_one_list = items[0].shape[:-1], items[0].shape[-1] * rivals[0].shape[-1]
    step = max(_IN_MEMORY // max(of_one_list, 1), 1)
    tensors = [value.unsqueeze(-1) for value in items] + [value.unsqueeze(-2) for value in rivals]
    if leading.numel() <= step:
        return compare(*tensors)
    flat = [value.flatten(0, -3) for value in tensors]
    parts = [[value[first : first + step] for value in flat] for first in range(0, leading.numel(), step)]
    values = torch.cat([checkpoint(compare, *part, use_reentrant=False, preserve_rng_state=False) for part in parts])
    return values.reshape(*leading, *values.shape[1:])
