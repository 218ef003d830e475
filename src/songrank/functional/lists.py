"""Helpers of the list losses: masks, precision, empty lists, comparisons in chunks."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from songrank.core.checks import check_choice, check_same_shape, fail

REDUCTIONS = ("mean", "sum", "none")
_IN_MEMORY = 2**26
"""Comparisons per chunk: 256 MB per float32 tensor."""


def prepare(scores: Tensor, labels: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """(scores, labels, mask) of the same shape, at least float32, scores and labels 0 at padding."""
    check_same_shape("labels", labels, "scores", scores)
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device).expand(scores.shape)
    check_same_shape("mask", mask, "scores", scores)
    if mask.dtype != torch.bool:
        fail("mask", mask.dtype, "dtype torch.bool", TypeError)
    dtype = torch.promote_types(scores.dtype, torch.float32)
    scores = torch.where(mask, scores, 0.0).to(dtype)
    return scores, torch.where(mask, labels.to(dtype), 0.0), mask


def reduce_lists(values: Tensor, mask: Tensor, reduction: str) -> Tensor:
    """Mean over the non-empty lists, their sum, or one value per list (0 for an empty one)."""
    check_choice("reduction", reduction, REDUCTIONS)
    present = mask.any(-1)
    values = torch.where(present, values, 0.0)
    if reduction == "none":
        return values
    return values.sum() if reduction == "sum" else values.sum() / present.sum().clamp_min(1)


def masked_log_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Log softmax over the items of each list; 0 at padding."""
    nothing = torch.where(mask.any(-1, keepdim=True), -torch.inf, 0.0).to(scores.dtype)
    lowest = torch.where(mask, scores, nothing)
    return torch.where(mask, torch.log_softmax(lowest, -1), 0.0)


def pairwise(values: Tensor) -> Tensor:
    """[..., i, j] = values_i − values_j."""
    return values.unsqueeze(-1) - values.unsqueeze(-2)


def take_items(column: Tensor | None, labels: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
    """Labels and values [..., P] of these columns, label 0 where a column is −1; all if None."""
    if column is None:
        return labels, *values
    if column.dtype != torch.int64:
        fail("column", column.dtype, "dtype torch.int64", TypeError)
    if column.shape[:-1] != labels.shape[:-1]:
        fail("column.shape", list(column.shape), f"[..., P] with the leading axes of labels, {list(labels.shape[:-1])}")
    at = column.clamp_min(0)
    taken = (value.gather(-1, at.expand(*value.shape[:-1], at.shape[-1])) for value in values)
    return torch.where(column < 0, 0.0, labels.gather(-1, at)), *taken


def compare_with_rivals(compare: Callable[..., Tensor], items: Sequence[Tensor], rivals: Sequence[Tensor]) -> Tensor:
    """``compare(*items, *rivals)`` for items [..., P, 1] and rivals [..., 1, L]; the result has the same leading axes.

    Above the memory limit, lists are compared in chunks, which the backward pass recomputes.
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
