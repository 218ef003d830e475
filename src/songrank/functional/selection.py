r"""Selectors ψ(x), x = h(x_i) − λ: smooth versions of 𝕀(x > 0), which selects the top K items."""

import torch
from torch import Tensor

from songrank.core.checks import check_choice

SELECTORS = ("sigmoid", "smooth_step")


def sigmoid_selector(x: Tensor, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """(ψ, ψ′) of 1/(1 + e^{−αx}), ``scale`` = α. It is positive below the threshold, so Lemma 3's bound does not hold.

    >>> sigmoid_selector(torch.tensor(0.0), scale=2.0)
    (tensor(0.5000), tensor(0.5000))
    """
    value = torch.sigmoid(scale * x)
    return value, scale * value * (1.0 - value)


def smooth_step(x: Tensor, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """(ψ, ψ′) of 3t² − 2t³ with t = αx clamped to [0, 1]; once continuously differentiable.

    It is at most 𝕀(x > 0), so Lemma 3 holds with C = 1, but items below the threshold have no gradient.

    >>> smooth_step(torch.tensor([-1.0, 0.5, 2.0]))
    (tensor([0.0000, 0.5000, 1.0000]), tensor([0.0000, 1.5000, 0.0000]))
    """
    t = (scale * x).clamp(0.0, 1.0)
    return t * t * (3.0 - 2.0 * t), 6.0 * scale * t * (1.0 - t)


def select(x: Tensor, selector: str = "sigmoid", scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """(ψ(x), ψ′(x)) of a selector by name.

    >>> select(torch.tensor(0.0), "sigmoid", scale=2.0)
    (tensor(0.5000), tensor(0.5000))
    """
    check_choice("selector", selector, SELECTORS)
    return sigmoid_selector(x, scale) if selector == "sigmoid" else smooth_step(x, scale)
