"""Positions of a few columns of a score matrix, if possible without ranking the whole matrix."""

import torch
from torch import Tensor

from songrank.functional.ranks import rank_span

MANY = 32
"""Items per row above which sorting the row is cheaper than counting higher scores per item."""
COUNT_BYTES = 24
"""Bytes per score while positions are counted: up to 8 for the input, 8 for a copy, and comparisons."""
SORT_BYTES = 112
"""Bytes per score while rows are sorted."""
_CPU_CELLS = 2**18


def positions(scores: Tensor, item: Tensor, list_size: Tensor, ties: str) -> tuple[Tensor, Tensor]:
    """First and last position, from 1, of the columns ``item`` [b, P] among the ``scores`` [b, N] that are not NaN.

    The two ends of the tied group for ``ties="average"``, else the same tensor twice; undefined for columns with a NaN
    score. ``list_size`` [b] is the number of scores of a row that are not NaN.

    >>> scores = torch.tensor([[0.5, torch.nan, 0.7, 0.5]])
    >>> [ends.tolist() for ends in positions(scores, torch.tensor([[0, 2]]), torch.tensor([3]), "average")]
    [[[2, 1]], [[3, 1]]]
    """
    if item.shape[-1] > MANY:
        return _sort(scores, item, list_size, ties)
    # Scores are read once per target: twice as fast if they stay in the cache of a core.
    step = max(1, _CPU_CELLS // scores.shape[-1]) if scores.device.type == "cpu" else scores.shape[0]
    starts = range(0, scores.shape[0], step)
    parts = [_count(scores[at : at + step], item[at : at + step], ties) for at in starts]
    last = torch.cat([part[1] for part in parts])
    return torch.cat([part[0] for part in parts]) if ties == "average" else last, last


def _count(scores: Tensor, item: Tensor, ties: str) -> tuple[Tensor, Tensor]:
    target = scores.gather(-1, item)
    columns = range(item.shape[-1])
    # One column at a time: all at once would store P comparisons per score.
    if ties == "pessimistic":
        last = torch.stack([_how_many(scores >= target[:, j : j + 1]) for j in columns], -1)
        return last, last
    above = torch.stack([_how_many(scores > target[:, j : j + 1]) for j in columns], -1)
    if ties == "average":
        return above + 1, above + torch.stack([_how_many(scores == target[:, j : j + 1]) for j in columns], -1)
    number = torch.arange(scores.shape[-1], device=scores.device)
    before = [_how_many((scores == target[:, j : j + 1]) & (number <= item[:, j : j + 1])) for j in columns]
    last = above + torch.stack(before, -1)
    return last, last


def _how_many(comparison: Tensor) -> Tensor:
    return comparison.sum(-1, dtype=torch.int32).long()  # about three times as fast as a sum in int64


def _sort(scores: Tensor, item: Tensor, list_size: Tensor, ties: str) -> tuple[Tensor, Tensor]:
    if ties == "stable":
        _, last = rank_span(scores.double(), mask=~scores.isnan(), ties=ties)
        last = last.gather(-1, item)
        return last, last
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    target = scores.gather(-1, item)
    ordered = scores.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf).sort(-1).values
    # A target of −∞ ties with the NaNs, so the count is limited to the candidates.
    last = (scores.shape[-1] - torch.searchsorted(ordered, target)).minimum(list_size.unsqueeze(-1))
    if ties == "pessimistic":
        return last, last
    return scores.shape[-1] - torch.searchsorted(ordered, target, right=True) + 1, last
