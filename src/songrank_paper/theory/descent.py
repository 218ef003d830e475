"""Runs of one method from w = 0, with ‖∇F‖² measured exactly on the way: the work of two experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from songrank_paper.theory.methods import METHODS, stepper
from songrank_paper.theory.problem import K, make_problem
from songrank_paper.theory.runs import Draws, Scorer

DENSITY = 1.1
"""‖∇F‖² is measured each time that t has grown by this factor."""


def measured_steps(steps: int) -> list[int]:
    """Where ‖∇F‖² is measured: every step at first, then by a constant factor.

    >>> measured_steps(30)[15:], len(measured_steps(10_000))
    ([16, 17, 18, 19, 20, 22, 24, 26, 28, 30], 88)
    """
    found = [1]
    while found[-1] < steps:
        found.append(min(steps, max(found[-1] + 1, int(found[-1] * DENSITY))))
    return found


def descend(
    folder: Path,
    *,
    method: str,
    a: float,
    rates: Sequence[float],
    seeds: Sequence[int],
    steps: int,
    batch: int,
    irrelevant: int,
) -> dict[str, Any]:
    """Run a method with these learning rates and seeds, all on the same slates for each seed.

    Returns:
        ``steps``: where it was measured, T; ``mean``: the mean of ‖∇F(w_t)‖² over t ≤ T, by learning rate, seed and T,
        each measured value standing for the steps since the one before; ``value``: F(w) in the end, by rate and seed.
    """
    torch.set_num_threads(1)
    problem, kind = make_problem(), METHODS[method]
    draws = Draws(problem, batch, irrelevant, seeds, K if kind.top_k else None)
    scorer = Scorer(problem, len(rates), len(seeds))
    running = stepper(method, scorer, draws, a, rates)
    times = measured_steps(steps)
    wanted, total, before = set(times), torch.zeros(len(rates) * len(seeds), dtype=torch.float64), 0
    means = []
    for t, slate in enumerate(draws.steps(steps, copies=len(rates)), start=1):
        if t in wanted:
            total += (t - before) * problem.squared_gradient(scorer.weights(), top_k=kind.top_k)
            means.append(total / t)
            before = t
        running.step(slate)
    value = problem.value(scorer.weights().detach(), top_k=kind.top_k).view(len(rates), len(seeds))
    mean = torch.stack(means, -1).view(len(rates), len(seeds), len(times))
    return {"steps": times, "mean": mean.tolist(), "value": value.tolist()}
