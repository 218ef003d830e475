"""Helpers of the list losses: masks, precision, empty lists, comparisons in chunks."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from songrank.core.checks import check_choice, check_same_shape, fail

REDUCTIONS = ("mean", "sum", "none")
_IN_MEMORY = 2**26
"""Comparisons per chunk: 256 MB per float32 tensor."""
_OF_ONE_LIST, _OF_A_PART = 2**24, 2**22
"""Comparisons of one list above which its items are compared in parts, and comparisons per part."""


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


def compare_with_rivals(
    compare: Callable[..., Tensor], items: Sequence[Tensor], rivals: Sequence[Tensor], *, per_item: bool = False
) -> Tensor:
    """``compare(*items, *rivals)`` for items [..., P, 1] and rivals [..., 1, L]; the result has the same leading axes.

    The result is a sum over items, or with ``per_item`` has one value per item, [..., P]. Above the memory limit, lists
    are compared in chunks, and the items of a long list too; the backward pass recomputes each chunk.
    """
    leading, columns = items[0].shape[:-1], rivals[0].shape[-1]
    of_one_list = items[0].shape[-1] * columns
    step = max(_IN_MEMORY // max(of_one_list, 1), 1)
    tensors = [value.unsqueeze(-1) for value in items] + [value.unsqueeze(-2) for value in rivals]
    long = of_one_list > _OF_ONE_LIST and not torch.compiler.is_compiling()
    if leading.numel() <= step and not long:
        return compare(*tensors)
    flat = [value.flatten(0, -3) if leading else value.unsqueeze(0) for value in tensors]
    if long:
        joined: Tensor = _InParts.apply(compare, len(items), per_item, *flat)  # type: ignore[no-untyped-call]
    else:
        parts = [[value[first : first + step] for value in flat] for first in range(0, leading.numel(), step)]
        found = [checkpoint(compare, *part, use_reentrant=False, preserve_rng_state=False) for part in parts]
        joined = torch.cat(found)
    return joined.reshape(*leading, *joined.shape[1:])


class _InParts(torch.autograd.Function):
    """``compare`` for each list and part of its items. Nothing is kept between parts; the backward pass repeats them.

    Checkpoints would keep small tensors between large ones, and so fragment the heap by the size of all comparisons.
    """

    @staticmethod
    def forward(ctx: Any, compare: Callable[..., Tensor], count: int, per_item: bool, *tensors: Tensor) -> Tensor:
        ctx.compare, ctx.count, ctx.per_item = compare, count, per_item
        ctx.save_for_backward(*tensors)
        lists, joined = tensors[0].shape[:2] if per_item else tensors[0].shape[:1], None
        for row in range(tensors[0].shape[0]):
            for items, some in _parts(tensors, count, row):
                value = compare(*some)
                if joined is None:
                    joined = value.new_zeros(*lists, *value.shape[len(lists) :])
                (joined[row : row + 1, items] if per_item else joined[row : row + 1]).add_(value)
        assert joined is not None
        return joined

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        tensors, wanted = ctx.saved_tensors, ctx.needs_input_grad[3:]
        found = [torch.zeros_like(value) if needed else None for value, needed in zip(tensors, wanted, strict=True)]
        for row in range(tensors[0].shape[0]):
            for items, some in _parts(tensors, ctx.count, row):
                with torch.enable_grad():
                    inputs = [value.detach().requires_grad_(needed) for value, needed in zip(some, wanted, strict=True)]
                    value = ctx.compare(*inputs)
                outer = gradient[row : row + 1, items] if ctx.per_item else gradient[row : row + 1]
                moved = [part for part in inputs if part.requires_grad]
                grads = iter(torch.autograd.grad(value, moved, outer, allow_unused=True))
                for at, total in enumerate(found):
                    if total is not None and (part := next(grads)) is not None:
                        (total[row : row + 1, items] if at < ctx.count else total[row : row + 1]).add_(part)
        return None, None, None, *found


def _parts(tensors: Sequence[Tensor], count: int, row: int) -> Iterator[tuple[slice, list[Tensor]]]:
    """The parts of one list: a slice of its items, and the tensors [1, …], of which the first ``count`` are items."""
    own, other = tensors[:count], [value[row : row + 1] for value in tensors[count:]]
    width = max(_OF_A_PART // tensors[count].shape[-1], 1)
    for first in range(0, own[0].shape[1], width):
        items = slice(first, first + width)
        yield items, [*(value[row : row + 1, items] for value in own), *other]
