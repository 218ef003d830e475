"""Schedules of the faster forms: η_t and γ_t as the paper's last theorem couples them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from songrank.core.checks import check_number

_MOST = 1e12


@dataclass(frozen=True)
class Schedule:
    r"""η_t = c / (c₀ + t)^{1/3} for step sizes, γ_t = min(½, a·η_t²/π) for memory.

    In the theorem, the step size of the model is α·η_t, that of the threshold τ·η_t, and each γ is a multiple of η²
    over the probability π that a row is drawn (1 for the momentum). The multiples depend on unknown constants of the
    model; here one a replaces them all. (The theorem pairs γ_{t+1} with η_t; c₀ absorbs the difference.)

    Args:
        c0: c₀ > 0, number of steps before η decreases.
        a: a > 0, update rate of the memory; with the default c, the initial γ of the momentum.
        c: c > 0; by default c₀^{1/3}, so that η starts at 1.

    >>> schedule = Schedule(c0=1000.0, a=0.1)
    >>> t = torch.tensor([0.0, 7000.0])
    >>> schedule.eta(t)
    tensor([1.0000, 0.5000])
    >>> schedule.gamma(t), schedule.gamma(t, share=0.1)
    (tensor([0.1000, 0.0250]), tensor([0.5000, 0.2500]))
    """

    c0: float = 1000.0
    a: float = 0.1
    c: float | None = None

    def __post_init__(self) -> None:
        check_number("c0", self.c0, 0.0, _MOST, low_open=True)
        check_number("a", self.a, 0.0, _MOST, low_open=True)
        check_number("c", self.start, 0.0, _MOST, low_open=True)

    @property
    def start(self) -> float:
        """The constant c."""
        return self.c0 ** (1 / 3) if self.c is None else self.c

    def eta(self, t: Tensor) -> Tensor:
        """η_t for the step t = 1, 2, …, a floating point tensor."""
        return self.start * (self.c0 + t).pow(-1 / 3)

    def gamma(self, t: Tensor, share: Tensor | float = 1.0) -> Tensor:
        """γ_t of rows drawn with probability ``share`` = π per step."""
        return torch.clamp(self.a * self.eta(t).square() / share, max=0.5)
