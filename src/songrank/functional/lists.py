"""What the list losses share: masks, working precision, and what happens to a list with nothing in it."""

import torch
from torch import Tensor

from songrank._checks import check_choice, check_same_shape, fail

REDUCTIONS = ("mean", "sum", "none")


def prepare(scores: Tensor, labels: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """(scores, labels, mask) of one shape, at least float32, scores and labels 0 at padding."""
    check_same_shape("labels", labels, "scores", scores)
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
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
    lowest = torch.where(mask, scores, torch.full_like(scores, -torch.inf))
    lowest = torch.where(mask.any(-1, keepdim=True), lowest, 0.0)
    return torch.where(mask, torch.log_softmax(lowest, -1), 0.0)


def safe_divide(total: Tensor, by: Tensor) -> Tensor:
    """Total / by, and 0 where ``by`` is 0."""
    return torch.where(by > 0, total / torch.where(by > 0, by, torch.ones_like(by)), 0.0)


def pairwise(values: Tensor) -> Tensor:
    """[..., i, j] = values_i − values_j."""
    return values.unsqueeze(-1) - values.unsqueeze(-2)
