r"""Selectors ψ(x), x = h(x_i) − λ: a smooth 𝕀(x > 0) that says whether an item is among the top K.

``sigmoid``: 1/(1 + e^{−αx}), whose derivative carries its factor α. It is positive below the threshold, so Lemma 3's
lower bound does not hold for it. ``smooth_step``: 0 for x ≤ 0, 1 for αx ≥ 1, 3t² − 2t³ with t = αx between; it is at
most 𝕀(x > 0), so Lemma 3 holds with C = 1, at the price of no gradient at all for items below the threshold.

>>> import torch
>>> smooth_step(torch.tensor([-1.0, 0.5, 2.0]), scale=1.0)[0]
tensor([0.0000, 0.5000, 1.0000])
"""

import torch
from torch import Tensor

from songrank.core.checks import check_choice

SELECTORS = ("sigmoid", "smooth_step")


def sigmoid_selector(x: Tensor, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """(ψ, ψ′) of the sigmoid with slope ``scale`` = α.

    >>> sigmoid_selector(torch.tensor(0.0), scale=2.0)
    (tensor(0.5000), tensor(0.5000))
    """
    value = torch.sigmoid(scale * x)
    return value, scale * value * (1.0 - value)


def smooth_step(x: Tensor, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """(ψ, ψ′) of the step that rises from 0 to 1 over 0 ≤ x ≤ 1/α; once continuously differentiable.

    >>> smooth_step(torch.tensor(0.5))
    (tensor(0.5000), tensor(1.5000))
    """
    t = (scale * x).clamp(0.0, 1.0)
    return t * t * (3.0 - 2.0 * t), 6.0 * scale * t * (1.0 - t)


def select(x: Tensor, selector: str = "sigmoid", scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """(ψ(x), ψ′(x)) of the selector named.

    >>> select(torch.tensor(0.0), "sigmoid", scale=2.0)
    (tensor(0.5000), tensor(0.5000))
    """
    check_choice("selector", selector, SELECTORS)
    return sigmoid_selector(x, scale) if selector == "sigmoid" else smooth_step(x, scale)
