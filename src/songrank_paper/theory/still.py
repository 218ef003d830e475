"""The limit of the momentum at a fixed point, which is ∇F if steps are unbiased."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from songrank_paper.experiment import Cell, Findings, Found, Table
from songrank_paper.theory.methods import METHODS, stepper
from songrank_paper.theory.problem import FEATURES, K, Problem, make_problem
from songrank_paper.theory.protocol import Protocol
from songrank_paper.theory.runs import Draws, Scorer

MEMORIES = (0.1, 0.03, 0.01)
"""Values of a; the smaller a, the closer an unbiased momentum is to ∇F."""


def stand_still(
    folder: Path, *, method: str, a: float, seeds: Sequence[int], steps: int, batch: int, irrelevant: int
) -> dict[str, Any]:
    """Apply a method with learning rate 0 at a fixed w, and average m over seeds and the second half of the steps.

    Returns:
        ``gradient``: ‖∇F(w)‖; ``bias``: ‖mean m − ∇F(w)‖; ``error``: its standard error over seeds.
    """
    torch.set_num_threads(1)
    problem, kind = make_problem(), METHODS[method]
    point = fixed_point(problem)
    draws = Draws(problem, batch, irrelevant, seeds, K if kind.top_k else None)
    scorer = Scorer(problem, 1, len(seeds))
    with torch.no_grad():
        scorer.runs[0].copy_(point.expand_as(scorer.runs[0]))
    running = stepper(method, scorer, draws, a, [0.0])
    total, count = torch.zeros(len(seeds), point.shape[1], dtype=torch.float64), 0
    for t, slate in enumerate(draws.steps(steps), start=1):
        running.step(slate)
        if 2 * t > steps:
            total, count = total + running.momentum(), count + 1
    exact = problem.gradient(point, top_k=kind.top_k)
    off = total / count - exact
    spread = (off.var(0).sum() / len(seeds)).sqrt()
    return {"gradient": float(exact.norm()), "bias": float(off.mean(0).norm()), "error": float(spread)}


def fixed_point(problem: Problem) -> Tensor:
    """[1, d]: the point after three exact gradient steps of length 1 from w = 0, where scores differ."""
    point = torch.zeros(1, FEATURES, dtype=torch.float64)
    for _ in range(3):
        point = point - problem.gradient(point)
    return point


def cells(protocol: Protocol, found: Found) -> list[Cell]:
    """All methods with all values of a."""
    return [_cell(protocol, method, a) for method in METHODS for a in MEMORIES]


def _cell(protocol: Protocol, method: str, a: float) -> Cell:
    options = {"method": method, "a": a, "seeds": list(range(200, 200 + protocol.still_seeds))}
    options |= {"steps": protocol.still_steps, "batch": protocol.batch, "irrelevant": protocol.irrelevant}
    name = f"{METHODS[method].title}, fixed point, a {a:g}"
    return Cell(name, "songrank_paper.theory.still:stand_still", options)


def show(protocol: Protocol, found: Found) -> Findings:
    """The distance of the mean momentum from ∇F, relative to ‖∇F‖."""
    rows: list[list[str | float | int | None]] = []
    for method in METHODS:
        results = [found[_cell(protocol, method, a).key] for a in MEMORIES]
        shares = [f"{r['bias'] / r['gradient']:.2f} ± {r['error'] / r['gradient']:.2f}" for r in results]
        rows.append([METHODS[method].title, *shares])
    columns = ["method", *(f"a = {a:g}" for a in MEMORIES)]
    table = Table("‖E m − ∇F‖ / ‖∇F‖ at a fixed point", columns, rows)
    worst = max(METHODS, key=lambda method: found[_cell(protocol, method, MEMORIES[-1]).key]["bias"])
    remark = f"At a fixed point, the mean momentum is farthest from the gradient for {METHODS[worst].title}."
    return Findings([remark], {"still": table})
