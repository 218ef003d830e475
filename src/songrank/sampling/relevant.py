"""Drawing relevant items without replacement, every subset equally likely."""

import torch
from torch import Tensor

from songrank.sampling.fractions import random_fractions


def draw_distinct(key: Tensor, population: Tensor, drawn: Tensor, width: int) -> Tensor:
    """[B, width]: in its first ``drawn`` entries each row has distinct numbers below its ``population``.

    Floyd's algorithm, a column a step for all rows at once: exactly uniform over subsets, so that for a drawn item
    every other item is equally likely to come along; ĝ is unbiased for that reason.

    Args:
        key: [B] int64, where a row's random numbers come from.
        population: [B], how many there are.
        drawn: [B], how many to draw, at most ``population``.
        width: columns to make, at least the largest ``drawn``.

    """
    column = torch.arange(width, device=key.device)
    last = population.unsqueeze(1) - drawn.unsqueeze(1) + column
    guess = (random_fractions(key, width) * (last + 1)).floor_().long()
    picked = torch.full_like(guess, -1)
    for step in range(width):
        repeated = (picked[:, :step] == guess[:, step : step + 1]).any(-1)
        picked[:, step] = torch.where(repeated, last[:, step], guess[:, step])
    return picked
