"""MSVR: a moving average that also follows how far the estimate itself has moved since the step before.

The paper's last section. One update serves four estimators, by what β and ``change`` are:

==================  ==================================  =====================================================
estimator           β                                   change
==================  ==================================  =====================================================
moving average      0                                   not used
STORM               1 − γ                               ĝ(w_t) − ĝ(w_{t−1}), both on this step's slate
MSVR                1 − γ + (1 − π) / (π (1 − γ))       the same
MSVR-SP             the same                            ∇ĝ(w_t) · (w_t − w_{t−1}), its first order
==================  ==================================  =====================================================

π is the probability that the row is drawn in a step. A row that is drawn every 1/π steps has missed what the model did
in between; MSVR's β scales the last step's change up to make good for that, so it is about 1/π for small π. The result
is no convex combination: it can leave the range of the estimates, and its user has to keep it inside what is possible.
"""

import torch
from torch import Tensor

from songrank.losses.memory.table import seen


def msvr(rows: Tensor, estimate: Tensor, change: Tensor | float, gamma: Tensor | float, beta: Tensor | float) -> Tensor:
    """(1 − γ)·row + γ·estimate + β·change; γ and β are numbers, or tensors with one for each row.

    On a row's first visit it is the estimate itself, ĝ(w_t). That is the same formula with ĝ(w_{t−1}) for the row and
    β = 1 − γ, whatever β is: a row that was never drawn has no missed steps to make good for.

    >>> from songrank.losses.memory import UNSEEN
    >>> rows, estimate = torch.tensor([1.0, UNSEEN]), torch.tensor([2.0, 2.0])
    >>> msvr(rows, estimate, change=torch.tensor([0.5, 0.5]), gamma=0.1, beta=0.9)
    tensor([1.5500, 2.0000])
    """
    return torch.where(seen(rows), (1.0 - gamma) * rows + gamma * estimate + beta * change, estimate)


def msvr_beta(gamma: Tensor | float, share: Tensor | float) -> Tensor | float:
    """β = 1 − γ + (1 − π) / (π (1 − γ)), for rows that a step draws with probability ``share`` = π.

    >>> msvr_beta(0.5, 1.0), msvr_beta(0.5, 0.01)
    (0.5, 198.5)
    """
    return 1.0 - gamma + (1.0 - share) / (share * (1.0 - gamma))
