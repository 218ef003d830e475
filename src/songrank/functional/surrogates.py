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
``exponential``     e^{x/τ}                                         1        always (the margin is not used)
``tanh``            (1 + tanh x)^{1/τ}                              1        always (the margin is not used)
``atan``            max(0, 1 + arctan x)^{1/τ}                      1        always (the margin is not used)
``relu``            max(0, 1 + x)^{1/τ}                             1        always (the margin is not used)
==================  ==============================================  =======  ==============================

The hinges need c > 0: with c = 0 an item that beats all others has rank 0, and the objective divides by log₂ 1 = 0.

The last four have a temperature τ > 0 and are computed in log space (``functional.log_rank_terms``), since they span
many orders of magnitude. Their sums over a list are dominated by the rivals with the largest scores: as τ decreases,
by fewer of them. The powers are the activations of PSL (Yang et al., NeurIPS 2024), for scores within about ±1.
"""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from songrank.core.checks import check_choice, check_number, fail

LINEAR_SURROGATES = ("squared_hinge", "smooth_hinge", "logistic", "sigmoid")
POWERS = ("tanh", "atan", "relu")
LOG_SURROGATES = ("exponential", *POWERS)
"""Surrogates with a temperature, computed in log space."""
_TEMPERED = ", ".join(LOG_SURROGATES)
_FARTHEST = 1e15
"""Largest x + c of the squared hinge: sums of its squares over 10⁸ items are finite in float32."""
SURROGATES = (*LINEAR_SURROGATES, *LOG_SURROGATES)


def squared_hinge(x: Tensor, margin: float = 1.0) -> Tensor:
    r"""ℓ(x) = max(0, x + c)², the paper's surrogate (section 4); convex, and 2-smooth.

    >>> squared_hinge(torch.tensor([-2.0, -0.5, 1.0]))
    tensor([0.0000, 0.2500, 4.0000])
    """
    return torch.square((x + margin).clamp(0.0, _FARTHEST))


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
    """A surrogate with its margin or temperature: ``surrogate(x)`` is ℓ(x), ``at_zero`` is ℓ(0).

    >>> Surrogate("squared_hinge", margin=2.0).at_zero
    4.0
    >>> Surrogate("exponential", temperature=0.5)(torch.tensor([-1.0, 0.0]))
    tensor([0.1353, 1.0000])
    """

    name: str
    margin: float = 1.0
    temperature: float = 1.0

    in_logs: bool = field(init=False, repr=False, compare=False)
    """Whether sums of ℓ are computed and stored as logarithms."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "in_logs", self.name in LOG_SURROGATES)
        check_choice("surrogate", self.name, SURROGATES)
        check_number("margin", self.margin, 0.0, low_open=True)
        check_number("temperature", self.temperature, 0.0, low_open=True)
        if self.temperature != 1.0 and not self.in_logs:
            fail("temperature", self.temperature, f"1 with surrogate {self.name!r}; {_TEMPERED} have a temperature")

    @property
    def at_zero(self) -> float:
        """ℓ(0)."""
        if self.in_logs:
            return 1.0
        margin = self.margin
        hinge = 0.5 * margin * margin if margin < 1 else margin - 0.5
        return {"squared_hinge": margin * margin, "smooth_hinge": hinge, "logistic": 1.0, "sigmoid": 0.5}[self.name]

    def __call__(self, x: Tensor) -> Tensor:
        """ℓ(x)."""
        if self.in_logs:
            return torch.exp(self.log_value_and_slope(x)[0])
        if self.name == "squared_hinge":
            return squared_hinge(x, self.margin)
        if self.name == "smooth_hinge":
            return smooth_hinge(x, self.margin)
        return logistic(x) if self.name == "logistic" else sigmoid(x)

    def log_value_and_slope(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(ln ℓ(x), its derivative) of a surrogate of ``LOG_SURROGATES``; −∞ and 0 where ℓ is 0.

        >>> Surrogate("tanh").log_value_and_slope(torch.zeros(1))
        (tensor([0.]), tensor([1.]))
        """
        if self.name == "exponential":
            return x / self.temperature, torch.full_like(x, 1.0 / self.temperature)
        if self.name == "tanh":  # 1 + tanh x = 2σ(2x)
            log_value, slope = torch.nn.functional.logsigmoid(2.0 * x) + math.log(2.0), 2.0 * torch.sigmoid(-2.0 * x)
        else:
            value, rise = (1.0 + x, 1.0) if self.name == "relu" else (1.0 + torch.atan(x), 1.0 / (1.0 + x * x))
            positive = value > 0
            log_value = torch.where(positive, torch.log(torch.where(positive, value, 1.0)), -torch.inf)
            slope = torch.where(positive, rise / torch.where(positive, value, 1.0), 0.0)
        return log_value / self.temperature, slope / self.temperature

    def value_and_slope_(self, x: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(ℓ(x), ℓ′(x)) for large x, without autograd; may overwrite x, and ``out`` if given."""
        if self.name == "squared_hinge":
            shifted = x.add_(self.margin).clamp_(0.0, _FARTHEST)
            return torch.mul(shifted, shifted, out=out), shifted.mul_(2.0)
        if self.name == "smooth_hinge":
            return smooth_hinge(x, self.margin), (x + self.margin).clamp_(0.0, 1.0)
        if self.in_logs:
            log_value, slope = self.log_value_and_slope(x)
            value = torch.exp(log_value)
            return value, value * slope
        value = torch.sigmoid(x)
        if self.name == "logistic":
            return logistic(x), value / math.log(2.0)
        return value, value * (1.0 - value)

    def total_and_slope_(self, x: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(Σ ℓ(x) over the last dimension, ℓ′(x)); may overwrite x, and ``out`` if given."""
        if self.name == "squared_hinge" and out is None:
            shifted = x.add_(self.margin).clamp_(0.0, _FARTHEST)
            return torch.linalg.vector_norm(shifted, dim=-1).square_(), shifted.mul_(2.0)
        value, slope = self.value_and_slope_(x, out)
        return value.sum(-1), slope

    def slope_(self, x: Tensor) -> Tensor:
        """ℓ′(x) alone; may overwrite x."""
        if self.name == "squared_hinge":
            return x.add_(self.margin).clamp_(0.0, _FARTHEST).mul_(2.0)
        return self.value_and_slope_(x)[1]
