"""Update rules of memory rows: the paper's moving average, its form in log space, and MSVR."""

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
    """:func:`moving_average` of rows that hold log u, without leaving log space.

    >>> log_moving_average(torch.tensor([0.0]), torch.tensor([0.0]), gamma=0.1)
    tensor([-7.4506e-09])
    """
    if gamma == 1.0:
        return log_estimate
    kept = torch.logaddexp(log_rows + math.log1p(-gamma), log_estimate + math.log(gamma))
    return torch.where(seen(log_rows), kept, log_estimate)


def msvr(rows: Tensor, estimate: Tensor, change: Tensor | float, gamma: Tensor | float, beta: Tensor | float) -> Tensor:
    """(1 − γ)·row + γ·estimate + β·change; the estimate itself on a row's first visit (the paper's last section).

    γ and β are scalars or one per row. One update covers four estimators:

    ==============  ==================================  ========================================================
    estimator       β                                   change
    ==============  ==================================  ========================================================
    moving average  0                                   not used
    STORM           1 − γ                               ĝ(w_t) − ĝ(w_{t−1}), both on this step's slate
    MSVR            1 − γ + (1 − π) / (π (1 − γ))       the same
    MSVR-SP         the same                            ∇ĝ(w_t) · (w_t − w_{t−1}), its first order
    ==============  ==================================  ========================================================

    π is the probability that a step draws the row. A row drawn every 1/π steps misses the model's changes in between;
    MSVR's β, about 1/π for small π, scales up the last change to compensate. The result is not a convex combination
    and can leave the range of the estimates: the caller clamps it.

    >>> from songrank.losses.memory import UNSEEN
    >>> rows, estimate = torch.tensor([1.0, UNSEEN]), torch.tensor([2.0, 2.0])
    >>> msvr(rows, estimate, change=torch.tensor([0.5, 0.5]), gamma=0.1, beta=0.9)
    tensor([1.5500, 2.0000])
    """
    return torch.where(seen(rows), (1.0 - gamma) * rows + gamma * estimate + beta * change, estimate)


def msvr_beta(gamma: Tensor | float, share: Tensor | float) -> Tensor | float:
    """β = 1 − γ + (1 − π) / (π (1 − γ)), for rows drawn with probability ``share`` = π per step.

    >>> msvr_beta(0.5, 1.0), msvr_beta(0.5, 0.01)
    (0.5, 198.5)
    """
    return 1.0 - gamma + (1.0 - share) / (share * (1.0 - gamma))
