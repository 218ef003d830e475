"""Scores of document lists of variable length, in bounded memory."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from songrank.core.csr import offsets
from songrank.core.processes import ALONE, Processes

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


def score_lists(
    model: Any, features: Tensor, lengths: Tensor, device: torch.device, processes: Processes = ALONE
) -> Tensor:
    """Scores float32 [documents], on the CPU, of consecutive lists in ``features`` [documents, F].

    Several processes with the same lists share the batches, and all have all scores.
    """
    start, scores = offsets(lengths), torch.zeros(features.shape[0])
    with processes.agreed(), torch.no_grad():
        for first, last in processes.share(list(list_groups(lengths.tolist(), features.shape[1]))):
            place = torch.arange(int(lengths[first:last].max()))
            mask = place < lengths[first:last].unsqueeze(1)
            rows = (start[first:last].unsqueeze(1) + place).clamp(max=features.shape[0] - 1)
            found = model(features[rows].float().to(device), mask.to(device))
            scores[int(start[first]) : int(start[last])] = found.float().cpu()[mask]
    return processes.add(scores.to(processes.device)).cpu()
