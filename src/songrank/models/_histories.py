"""Histories as models read them: rows [B, T] of items, filled up with −1 after the last one."""

import torch
from torch import Tensor

from songrank.core.checks import fail


def check_history(history: Tensor) -> None:
    """Raise unless ``history`` holds items [B, T]."""
    if not isinstance(history, Tensor) or history.dtype != torch.int64:
        given = history.dtype if isinstance(history, Tensor) else type(history).__name__
        fail("history", given, "a tensor of items, of type torch.int64", TypeError)
    if history.dim() != 2:
        raise ValueError(f"history has shape {list(history.shape)}; expected items of B users, of shape [B, T]")


def last_items(history: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """[B, T] the last ``length`` items of each row at most, and [B] how many there are.

    >>> last_items(torch.tensor([[4, 5, 6], [7, -1, -1]]), 2)
    (tensor([[ 5,  6],
            [ 7, -1]]), tensor([2, 1]))
    """
    count = (history >= 0).sum(1)
    if history.shape[1] <= length:
        return history, count
    place = torch.arange(length, device=history.device)
    first = (count - length).clamp_min(0).unsqueeze(1)
    return history.gather(1, first + place), count.clamp(max=length)
