r"""Surrogates ℓ of the indicator 𝕀(x ≥ 0), x = h(x') − h(x): the contribution of a rival x' to the rank of x.

The paper uses the squared hinge. Lemma 1 (the smooth objective is a lower bound of NDCG) needs ℓ(x) ≥ 𝕀(x ≥ 0)
everywhere; as all surrogates are non-negative and non-decreasing, ℓ(0) ≥ 1 suffices:

==================  ==============================================  =======  ==============================
name                ℓ(x)                                            ℓ(0)     Lemma 1 holds
==================  ==============================================  =======  ==============================
``squared_hinge``   max(0, x + c)²                                  c²       for margin c ≥ 1
``smooth_hinge``    0; (x + c)²/2 for 0 < x + c < 1; x + c − 1/2    c − 1/2  for margin c ≥ 1.5
``logistic``        log₂(1 + eˣ)                                    1        always (the margin is not used)
``sigmoid``         1 / (1 + e⁻ˣ)                                   1/2      never (the margin is not used)
==================  ==============================================  =======  ==============================

The hinges need c > 0: with c = 0 an item that beats all others has rank 0, and the objective divides by log₂ 1 = 0.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.core.checks import check_choice, check_number

SURROGATES = ("squared_hinge", "smooth_hinge", "logistic", "sigmoid")


def squared_hinge(x: Tensor, margin: float = 1.0) -> Tensor:
    r"""ℓ(x) = max(0, x + c)², the paper's surrogate (section 4); convex, and 2-smooth.

    >>> squared_hinge(torch.tensor([-2.0, -0.5, 1.0]))
    tensor([0.0000, 0.2500, 4.0000])
    """
    return torch.square(torch.relu(x + margin))


def smooth_hinge(x: Tensor, margin: float = 1.0) -> Tensor:
    r"""The hinge max(0, x + c), smoothed over one unit: it grows linearly, so outliers have less weight than squared.

    >>> smooth_hinge(torch.tensor([-2.0, -0.5, 1.0]))
    tensor([0.0000, 0.1250, 1.5000])
    """
    shifted = torch.relu(x + margin)
    return torch.where(shifted < 1, 0.5 * shifted * shifted, shifted - 0.5)


def logistic(x: Tensor) -> Tensor:
    r"""ℓ(x) = log₂(1 + eˣ); convex, smooth everywhere, never 0.

    >>> logistic(torch.zeros(1))
    tensor([1.])
    """
    return torch.nn.functional.softplus(x, threshold=50.0) / math.log(2.0)


def sigmoid(x: Tensor) -> Tensor:
    r"""ℓ(x) = 1/(1 + e⁻ˣ); bounded, not convex, used by ApproxNDCG.

    >>> sigmoid(torch.zeros(1))
    tensor([0.5000])
    """
    return torch.sigmoid(x)


@dataclass(frozen=True)
class Surrogate:
    """A surrogate with its margin: ``surrogate(x)`` is ℓ(x), ``at_zero`` is ℓ(0).

    >>> Surrogate("squared_hinge", margin=2.0).at_zero
    4.0
    """

    name: str
    margin: float = 1.0

    def __post_init__(self) -> None:
        check_choice("surrogate", self.name, SURROGATES)
        check_number("margin", self.margin, 0.0, low_open=True)

    @property
    def at_zero(self) -> float:
        """ℓ(0)."""
        margin = self.margin
        hinge = 0.5 * margin * margin if margin < 1 else margin - 0.5
        return {"squared_hinge": margin * margin, "smooth_hinge": hinge, "logistic": 1.0, "sigmoid": 0.5}[self.name]

    def __call__(self, x: Tensor) -> Tensor:
        """ℓ(x)."""
        if self.name == "squared_hinge":
            return squared_hinge(x, self.margin)
        if self.name == "smooth_hinge":
            return smooth_hinge(x, self.margin)
        return logistic(x) if self.name == "logistic" else sigmoid(x)

    def value_and_slope_(self, x: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(ℓ(x), ℓ′(x)) for large x, without autograd; may overwrite x, and ``out`` if given."""
        if self.name == "squared_hinge":
            shifted = x.add_(self.margin).relu_()
            return torch.mul(shifted, shifted, out=out), shifted.mul_(2.0)
        if self.name == "smooth_hinge":
            return smooth_hinge(x, self.margin), (x + self.margin).clamp_(0.0, 1.0)
        value = torch.sigmoid(x)
        if self.name == "logistic":
            return logistic(x), value / math.log(2.0)
        return value, value * (1.0 - value)

    def total_and_slope_(self, x: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(Σ ℓ(x) over the last dimension, ℓ′(x)); may overwrite x, and ``out`` if given."""
        if self.name == "squared_hinge" and out is None:
            shifted = x.add_(self.margin).relu_()
            return torch.linalg.vector_norm(shifted, dim=-1).square_(), shifted.mul_(2.0)
        value, slope = self.value_and_slope_(x, out)
        return value.sum(-1), slope

    def slope_(self, x: Tensor) -> Tensor:
        """ℓ′(x) alone; may overwrite x."""
        if self.name == "squared_hinge":
            return x.add_(self.margin).relu_().mul_(2.0)
        return self.value_and_slope_(x)[1]
