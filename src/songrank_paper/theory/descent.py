"""Runs of a method from w = 0 with exact measurements of ‖∇F‖², used by two experiments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from songrank_paper.theory.methods import METHODS, stepper
from songrank_paper.theory.problem import K, make_problem
from songrank_paper.theory.runs import Draws, Scorer

DENSITY = 1.1
"""Factor between the steps at which ‖∇F‖² is measured."""


def measured_steps(steps: int) -> list[int]:
    """Steps at which ‖∇F‖² is measured: first every step, then by a constant factor.

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
    """Train a method with these learning rates and seeds, on the same slates for each seed.

    Returns:
        ``steps``: measured steps T; ``mean``: the mean of ‖∇F(w_t)‖² over t ≤ T, by learning rate, seed and T, where
        each measured value represents the steps since the previous one; ``value``: final F(w), by rate and seed.
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
