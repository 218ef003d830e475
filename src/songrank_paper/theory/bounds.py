r"""Constants of the paper's assumptions on the small problem, derived from its formulas.

The scores h = 2 tanh(w·x) are bounded by 2, ‖∇h‖ ≤ 2 ‖x‖ and ‖∇²h‖ ≤ 1.54 ‖x‖². The pair i has the terms
P · ψ(h_i − λ_q) f(g_i), so that their mean over the n = QP pairs is F_K without its penalty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from songrank_paper.theory.problem import MARGIN, SCALE, SELECTOR_SCALE, TAU1, TAU2, Problem

_TANH_BEND = 4.0 / (3.0 * math.sqrt(3.0))
"""max |tanh″|."""
_SIGMOID_BEND = 1.0 / (6.0 * math.sqrt(3.0))
"""max |σ″|."""


@dataclass(frozen=True)
class Bounds:
    """C: Lipschitz constants, L: Lipschitz constants of the gradient, B: bounds; ``_psi`` and so on name the function.

    ``cross`` is ∇²_{wλ} L (bound C, Lipschitz constant L), ``bend`` is ∇²_{λλ} L, ``floor`` its lower bound γ = μ_L.
    """

    c_psi: float
    l_psi: float
    b_psi: float
    c_f: float
    l_f: float
    b_f: float
    c_g: float
    l_g: float
    l_threshold: float
    floor: float
    c_cross: float
    l_cross: float
    l_bend: float

    @property
    def c_lambda(self) -> float:
        """C_λ = L_L/μ_L."""
        return self.l_threshold / self.floor

    @property
    def smoothness(self) -> float:
        """L_F = C₁ + C₂ + C₃ of the proof, with the factor 2 that its first inequality omits, and (1 + C_λ²)."""
        moved = 1.0 + self.c_lambda**2
        first = 2.0 * (self.c_psi * self.c_f * self.c_g) ** 2 + 2.0 * (self.b_f * self.l_psi) ** 2 * moved
        inverse = self.c_cross * self.l_bend / self.floor
        second = (self.l_cross * self.c_psi) ** 2 + (inverse * self.c_psi) ** 2 + (self.c_cross * self.l_psi) ** 2
        second = second * self.b_f**2 * moved + (self.c_cross * self.c_psi * self.c_f * self.c_g) ** 2
        third = (self.c_psi * self.c_g * self.c_f) ** 2 * moved
        third += (self.b_psi * self.l_g * self.c_f) ** 2 + (self.b_psi * self.c_g**2 * self.l_f) ** 2
        return math.sqrt(first) + math.sqrt(4.0 * second) / self.floor + math.sqrt(3.0 * third)

    @property
    def decomposition(self) -> tuple[float, float, float]:
        """C₀, C₁ and C₂ of the decomposition of ∇F − m: the factors of the errors of λ, u and s."""
        share = (self.c_cross * self.c_psi) ** 2
        first = 3.0 * (self.l_psi * self.b_f) ** 2 + 3.0 * (self.c_g * self.c_f * self.c_psi) ** 2
        inner = (self.l_cross * self.c_psi) ** 2 + (self.c_cross * self.l_psi) ** 2
        inner += (self.c_cross * self.l_bend * self.c_psi / self.floor) ** 2
        first += 9.0 * inner * (self.b_f / self.floor) ** 2
        second = 3.0 * (self.c_psi * self.c_f) ** 2 + 3.0 * (self.b_psi * self.c_g * self.l_f) ** 2
        second += 6.0 * share * (self.c_f / self.floor) ** 2
        return first, second, 6.0 * share * (self.b_f / self.floor**2) ** 2

    @property
    def momentum(self) -> tuple[float, float, float, float]:
        """C₃, C₄, C₅ and C₆ of the recursion of m: the factors of the changes of u, w, λ and s."""
        share = (self.c_cross * self.c_psi) ** 2
        u = 6.0 * (self.c_psi * self.c_f) ** 2 + 12.0 * share * (self.c_f / self.floor) ** 2
        u += 9.0 * (self.b_psi * self.c_g * self.l_f) ** 2
        threshold = 12.0 * (self.b_f * self.l_psi) ** 2 + 18.0 * (self.c_g * self.c_f * self.c_psi) ** 2
        inner = (self.c_psi * self.l_cross) ** 2 + (self.l_psi * self.c_cross) ** 2
        threshold += 24.0 * inner * (self.b_f / self.floor) ** 2
        weights = threshold + 9.0 * (self.b_psi * self.c_f * self.l_g) ** 2
        return u, weights, threshold, 12.0 * share * (self.b_f / self.floor**2) ** 2


def find_bounds(problem: Problem) -> Bounds:
    """The constants of the problem, valid for all w and λ.

    >>> from songrank_paper.theory.problem import make_problem
    >>> find_bounds(make_problem()).floor
    0.01
    """
    norm = problem.features.norm(dim=2)
    slope, bend = SCALE * norm, SCALE * _TANH_BEND * norm.square()
    own_slope, own_bend = (value.gather(1, problem.relevant) for value in (slope, bend))
    reach = 2.0 * SCALE + MARGIN  # max of h_j − h_i + c
    apart, bent = _sums(slope, own_slope), _sums(bend, own_bend)
    largest = float(slope.max())
    along = math.sqrt(largest**2 + 1.0)  # of h − λ in (w, λ)
    count, size = problem.relevant.shape[1], problem.features.shape[1]
    gain = count * float((2.0 ** problem.label.max() - 1.0) / problem.ideal)  # with the factor P
    steep = gain * size / math.log(2.0)  # f′ and f″ are largest at the rank of 1, where log₂(N g + 1) = 1
    return Bounds(
        c_psi=SELECTOR_SCALE / 4.0 * along,
        l_psi=SELECTOR_SCALE**2 * _SIGMOID_BEND * along**2 + SELECTOR_SCALE / 4.0 * float(bend.max()),
        b_psi=1.0,
        c_f=steep / 2.0,
        l_f=steep * size / 4.0 * (2.0 / math.log(2.0) + 1.0),
        b_f=gain,
        c_g=float((2.0 * reach * apart).mean(2).max()),
        l_g=float((2.0 * apart.square() + 2.0 * reach * bent).mean(2).max()),
        l_threshold=TAU2 + float(((slope.square() + 1.0) / (4.0 * TAU1) + bend).mean(1).max()),
        floor=TAU2,
        c_cross=float(slope.mean(1).max()) / (4.0 * TAU1),
        l_cross=float((_SIGMOID_BEND / TAU1**2 * slope * along + bend / (4.0 * TAU1)).mean(1).max()),
        l_bend=_SIGMOID_BEND / TAU1**2 * along,
    )


def _sums(values: Tensor, own: Tensor) -> Tensor:
    """[Q, P, N]: values_j + own_i, a bound of the derivative of h_j − h_i."""
    return values.unsqueeze(1) + own.unsqueeze(2)
