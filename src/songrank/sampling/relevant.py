"""Drawing relevant items without replacement, every subset equally likely."""

import torch
from torch import Tensor

from songrank.core.hashing import random_fractions


def draw_distinct(key: Tensor, population: Tensor, drawn: Tensor, width: int) -> Tensor:
    """[B, width]: in its first ``drawn`` entries each row has distinct numbers below its ``population``.

    Floyd's algorithm, a column per step for all rows at once: exactly uniform over subsets, so that next to a drawn
    item every other item is equally likely; ĝ is unbiased for that reason. ``key`` [B] int64 seeds each row.
    """
    column = torch.arange(width, device=key.device)
    last = population.unsqueeze(1) - drawn.unsqueeze(1) + column
    guess = (random_fractions(key, width) * (last + 1)).floor_().long()
    picked = torch.full_like(guess, -1)
    for step in range(width):
        repeated = (picked[:, :step] == guess[:, step : step + 1]).any(-1)
        picked[:, step] = torch.where(repeated, last[:, step], guess[:, step])
    return picked
