"""Scores of document lists of variable length, in bounded memory."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from songrank.core.csr import offsets

_VALUES = 2**24  # maximum number of padded feature values per batch
_PAIRS = 2**24  # maximum number of document pairs per batch, for attention


def list_groups(lengths: list[int], num_features: int) -> Iterator[tuple[int, int]]:
    """Batches [first, last) of consecutive lists, padded to the longest, in bounded memory."""
    first, longest = 0, 1
    for at, length in enumerate(lengths):
        rows, longest = at + 1 - first, max(longest, length)
        if rows > 1 and (rows * longest * num_features > _VALUES or rows * longest**2 > _PAIRS):
            yield first, at
            first, longest = at, max(1, length)
    if len(lengths) > first:
        yield first, len(lengths)


def score_lists(model: Any, features: Tensor, lengths: Tensor, device: torch.device) -> Tensor:
    """Scores float32 [documents], on the CPU, of consecutive lists in ``features`` [documents, F]."""
    start, scores = offsets(lengths), torch.empty(features.shape[0])
    with torch.no_grad():
        for first, last in list_groups(lengths.tolist(), features.shape[1]):
            place = torch.arange(int(lengths[first:last].max()))
            mask = place < lengths[first:last].unsqueeze(1)
            rows = (start[first:last].unsqueeze(1) + place).clamp(max=features.shape[0] - 1)
            found = model(features[rows].float().to(device), mask.to(device))
            scores[int(start[first]) : int(start[last])] = found.float().cpu()[mask]
    return scores
