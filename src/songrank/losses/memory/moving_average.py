"""The moving average with which the paper's losses remember, u ← (1 − γ)u + γĝ, and its form in log space."""

import math

import torch
from torch import Tensor

from songrank.losses.memory.table import seen


def moving_average(rows: Tensor, estimate: Tensor, gamma: float) -> Tensor:
    """(1 − γ)·row + γ·estimate; the estimate itself on a row's first visit (design decision 1).

    >>> from songrank.losses.memory import UNSEEN
    >>> moving_average(torch.tensor([1.0, UNSEEN]), torch.tensor([2.0, 2.0]), gamma=0.1)
    tensor([1.1000, 2.0000])
    """
    return torch.where(seen(rows), (1.0 - gamma) * rows + gamma * estimate, estimate)


def log_moving_average(log_rows: Tensor, log_estimate: Tensor, gamma: float) -> Tensor:
    """The same for rows that hold log u, without leaving log space.

    >>> log_moving_average(torch.tensor([0.0]), torch.tensor([0.0]), gamma=0.1)
    tensor([-7.4506e-09])
    """
    if gamma == 1.0:
        return log_estimate
    kept = torch.logaddexp(log_rows + math.log1p(-gamma), log_estimate + math.log(gamma))
    return torch.where(seen(log_rows), kept, log_estimate)
