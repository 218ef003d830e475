"""Searching many sorted segments of one flat array at once, without a loop over segments."""

from collections.abc import Callable

import torch
from torch import Tensor


def search_depth(longest: int) -> int:
    """Halvings that a search over segments of at most ``longest`` entries takes."""
    return max(longest, 0).bit_length()


def partition_point(start: Tensor, stop: Tensor, depth: int, holds: Callable[[Tensor], Tensor]) -> Tensor:
    """For each element the first index in [start, stop) where ``holds`` is False, ``stop`` if it always holds.

    ``holds`` maps indices to booleans, True up to some index of each segment and False after it. Every element takes
    ``depth`` steps whatever the data, so nothing is read back from the device.
    """
    position = start - 1
    final = stop - 1
    for bit in range(depth - 1, -1, -1):
        candidate = position + (1 << bit)
        inside = torch.minimum(candidate, final).clamp_min(0)
        position = torch.where((candidate <= final) & holds(inside), candidate, position)
    return position + 1


def segment_rows(lengths: Tensor) -> Tensor:
    """Row of each entry of a flat array that holds ``lengths[r]`` entries for row r; reads the total back."""
    return torch.repeat_interleave(torch.arange(lengths.shape[0], device=lengths.device), lengths)


def offsets(lengths: Tensor) -> Tensor:
    """Where each row begins, with the total at the end."""
    return torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
