"""Validation of model inputs: ids, items, histories, tokens and padded document lists."""

import torch
from torch import Tensor

from songrank.core.checks import check_tensor, check_type, fail


def check_ids(query: Tensor) -> None:
    """Raise unless ``query`` holds ids [B]."""
    if not isinstance(query, Tensor):
        fail("query", type(query).__name__, "a tensor of ids, of shape [B]", TypeError)
    if query.dim() != 1:
        raise ValueError(f"query has shape {list(query.shape)}; expected ids, of shape [B]")
    if query.dtype != torch.int64:
        fail("query", query.dtype, "ids, of dtype torch.int64", TypeError)


def check_item(item: Tensor, rows: int) -> None:
    """Raise unless ``item`` holds ids [B, L] or [1, L] for B = ``rows``."""
    check_tensor("item", item, "[B, L] or [1, L]")
    # Explicit, because a graph compiled with dynamic sizes cannot search a list of shapes.
    if item.dim() != 2 or (item.shape[0] != 1 and item.shape[0] != rows):
        raise ValueError(f"item has shape {list(item.shape)}; expected [B, L] or [1, L] with B={rows}")
    check_type("item", item, torch.int64)


def check_words(tokens: Tensor) -> None:
    """Raise unless ``query`` holds tokens [B, T], padded with 0 at the end."""
    if not isinstance(tokens, Tensor) or tokens.dim() != 2 or tokens.shape[1] == 0:
        fail("query", getattr(tokens, "shape", type(tokens).__name__), "tokens, of shape [B, T]")
    if tokens.is_floating_point() or tokens.dtype == torch.bool:
        fail("query", tokens.dtype, "tokens, of dtype torch.int64", TypeError)


def check_history(history: Tensor) -> None:
    """Raise unless ``history`` holds items [B, T]."""
    if not isinstance(history, Tensor) or history.dtype != torch.int64:
        given = history.dtype if isinstance(history, Tensor) else type(history).__name__
        fail("history", given, "a tensor of items, of dtype torch.int64", TypeError)
    if history.dim() != 2:
        raise ValueError(f"history has shape {list(history.shape)}; expected items of B users, of shape [B, T]")


def last_items(history: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """The last ``length`` items of each row, [B, T] padded with −1 at the end, and their number [B]."""
    check_history(history)
    count = (history >= 0).sum(1)
    if history.shape[1] <= length:
        return history, count
    first = (count - length).clamp_min(0).unsqueeze(1)
    return history.gather(1, first + torch.arange(length, device=history.device)), count.clamp(max=length)


def read_lists(features: Tensor, mask: Tensor, num_features: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Features [B, L, F] of this ``dtype`` with zeroed padding, and the mask [B, L].

    Padding is zeroed first, because NaN there would propagate to the gradient of the weights.
    """
    check_tensor("features", features, "[B, L, F]")
    if features.dim() != 3 or features.shape[2] != num_features:
        raise ValueError(f"features has shape {list(features.shape)}; expected [B, L, F] with F={num_features}")
    rows, columns = features.shape[:2]
    check_tensor("mask", mask, "[B, L] or [1, L]")
    if mask.dim() != 2 or mask.shape[1] != columns or (mask.shape[0] != 1 and mask.shape[0] != rows):
        raise ValueError(f"mask has shape {list(mask.shape)}; expected [B, L] or [1, L], here {[rows, columns]}")
    check_type("mask", mask, torch.bool)
    return features.to(dtype).masked_fill(~mask.unsqueeze(-1), 0.0), mask.expand(rows, columns)
