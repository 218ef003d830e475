"""Lists of documents of different lengths, scored by a list model in bounded memory."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from songrank.core.csr import length_groups, offsets

_VALUES = 2**24  # features of padded lists that are held at once
_PAIRS = 2**24  # pairs of documents of a list that are compared at once, by models that do


def list_groups(lengths: list[int], num_features: int) -> Iterator[tuple[int, int]]:
    """Neighbouring lists [first, last) that fit into memory when padded to the longest of them.

    >>> list(list_groups([3000, 3000, 10], num_features=5))
    [(0, 1), (1, 2), (2, 3)]
    """
    return length_groups(
        lengths, lambda rows, longest: rows * longest * num_features <= _VALUES and rows * longest**2 <= _PAIRS
    )


def score_lists(model: Any, features: Tensor, lengths: Tensor, device: torch.device) -> Tensor:
    """Scores float32 [documents] of lists that follow one another in ``features`` [documents, F], on the CPU."""
    start, scores = offsets(lengths), torch.empty(features.shape[0])
    with torch.no_grad():
        for first, last in list_groups(lengths.tolist(), features.shape[1]):
            place = torch.arange(int(lengths[first:last].max()))
            mask = place < lengths[first:last].unsqueeze(1)
            rows = (start[first:last].unsqueeze(1) + place).clamp(max=features.shape[0] - 1)
            found = model(features[rows].float().to(device), mask.to(device))
            scores[int(start[first]) : int(start[last])] = found.float().cpu()[mask]
    return scores
