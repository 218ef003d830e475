"""Tuned methods: for each T the best constants on the tuning seeds, and their results on other seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from songrank_paper.experiment import Cell, Found
from songrank_paper.theory.methods import METHODS
from songrank_paper.theory.protocol import Protocol

Constants = tuple[float, float]
"""(a, learning rate)."""


@dataclass(frozen=True)
class Tuned:
    """A method at one |B| and |B_q|, and its runs of ``descent.descend``: for tuning, then with the chosen constants.

    Constants in the theorems depend on T, so they are chosen for each T. A run with constant step sizes is also the run
    for any smaller T; the schedules of the faster forms do not depend on T either.
    """

    method: str
    protocol: Protocol
    batch: int
    irrelevant: int
    steps: int
    found: Found

    def _cell(self, a: float, rates: Sequence[float], seeds: Sequence[int], use: str) -> Cell:
        options = {"method": self.method, "a": a, "rates": list(rates), "seeds": list(seeds), "steps": self.steps}
        options |= {"batch": self.batch, "irrelevant": self.irrelevant}
        where = f"|B| {self.batch}, |B_q| {self.irrelevant}, a {a:g}"
        return Cell(f"{METHODS[self.method].title}, {where}, {use}", "songrank_paper.theory.descent:descend", options)

    @property
    def tuning(self) -> list[Cell]:
        """The cells of tuning."""
        plan = self.protocol
        return [self._cell(a, plan.rates, plan.tuning_seeds, "tuning") for a in plan.memories]

    @property
    def is_tuned(self) -> bool:
        """Whether the cells of tuning are done."""
        return all(cell.key in self.found for cell in self.tuning)

    def cells(self) -> list[Cell]:
        """All cells known so far."""
        return [*self.tuning, *self._reporting.values()] if self.is_tuned else self.tuning

    @cached_property
    def times(self) -> list[int]:
        """The measured values of T."""
        times: list[int] = self.found[self.tuning[0].key]["steps"]
        return times

    @cached_property
    def chosen(self) -> list[Constants]:
        """For each T, the constants with the smallest mean of ‖∇F‖² over t ≤ T."""
        return self._best(self._tuning_means)

    @cached_property
    def chosen_late(self) -> Constants:
        """The constants with the smallest mean over the second half of the longest run."""
        return self._best(late(self._tuning_means, self.times).unsqueeze(-1))[0]

    def curve(self) -> Tensor:
        """[seeds, T]: mean of ‖∇F(w_t)‖² over t ≤ T, with the constants chosen for each T."""
        parts = [self._reported(constants)[:, at] for at, constants in enumerate(self.chosen)]
        return torch.stack(parts, 1)

    def late_curve(self) -> Tensor:
        """[seeds]: mean of ‖∇F(w_t)‖² over the second half of the longest run, with its own constants."""
        return late(self._reported(self.chosen_late), self.times)

    def late_value(self) -> Tensor:
        """[seeds]: F at the end of that run."""
        return self._reported(self.chosen_late, "value")

    def reach(self, tolerance: float) -> int | None:
        """The smallest T at which the mean curve over seeds is at most ε²."""
        below = (self.curve().mean(0) <= tolerance**2).nonzero()
        return self.times[int(below[0])] if below.numel() else None

    @property
    def _tuning_means(self) -> Tensor:
        """[a, rates, T]: mean over the tuning seeds."""
        means = [torch.tensor(self.found[cell.key]["mean"], dtype=torch.float64).mean(1) for cell in self.tuning]
        return torch.stack(means).nan_to_num(torch.inf, torch.inf)

    def _best(self, means: Tensor) -> list[Constants]:
        rates = self.protocol.rates
        best = means.flatten(0, 1).argmin(0).tolist()
        return [(self.protocol.memories[at // len(rates)], rates[at % len(rates)]) for at in best]

    @cached_property
    def _reporting(self) -> dict[float, Cell]:
        """For each a chosen for some T, the cell with its learning rates."""
        found: dict[float, set[float]] = {}
        for a, rate in [*self.chosen, self.chosen_late]:
            found.setdefault(a, set()).add(rate)
        return {a: self._cell(a, sorted(rates), self.protocol.seeds, "reported") for a, rates in found.items()}

    def _reported(self, constants: Constants, what: str = "mean") -> Tensor:
        cell = self._reporting[constants[0]]
        at = list(cell.options["rates"]).index(constants[1])
        return torch.tensor(self.found[cell.key][what][at], dtype=torch.float64)


def late(means: Tensor, times: Sequence[int]) -> Tensor:
    """The mean over the second half, from means [..., T] over all steps so far.

    >>> late(torch.tensor([4.0, 3.0]), times=[5, 10])                # sum 30 over 10 steps, 20 over the first five
    tensor(2.)
    """
    half = min(range(len(times)), key=lambda at: abs(times[at] - times[-1] / 2))
    sums = means * torch.tensor(times, dtype=means.dtype)
    return (sums[..., -1] - sums[..., half]) / (times[-1] - times[half])
