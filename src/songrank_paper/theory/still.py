"""What the momentum tends to at a point that stands still: ∇F, if nothing in a step is biased."""

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
"""a; the smaller, the nearer to ∇F the mean of an unbiased momentum, and the closer its draws."""


def stand_still(
    folder: Path, *, method: str, a: float, seeds: Sequence[int], steps: int, batch: int, irrelevant: int
) -> dict[str, Any]:
    """Run a method with learning rate 0 at a fixed w, and average its m over seeds and the second half of the steps.

    Returns:
        ``gradient``: ‖∇F(w)‖; ``bias``: ‖mean m − ∇F(w)‖; ``error``: its standard error, by seeds.
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
    """[1, d]: three exact gradient steps of length 1 from w = 0: on the way, with scores that differ."""
    point = torch.zeros(1, FEATURES, dtype=torch.float64)
    for _ in range(3):
        point = point - problem.gradient(point)
    return point


def cells(protocol: Protocol, found: Found) -> list[Cell]:
    """Every method with every a."""
    return [_cell(protocol, method, a) for method in METHODS for a in MEMORIES]


def _cell(protocol: Protocol, method: str, a: float) -> Cell:
    options = {"method": method, "a": a, "seeds": list(range(200, 200 + protocol.still_seeds))}
    options |= {"steps": protocol.still_steps, "batch": protocol.batch, "irrelevant": protocol.irrelevant}
    name = f"{METHODS[method].title}, standing still, a {a:g}"
    return Cell(name, "songrank_paper.theory.still:stand_still", options)


def show(protocol: Protocol, found: Found) -> Findings:
    """The distance of the mean momentum from ∇F, as a share of ‖∇F‖."""
    rows: list[list[str | float | int | None]] = []
    for method in METHODS:
        results = [found[_cell(protocol, method, a).key] for a in MEMORIES]
        shares = [f"{r['bias'] / r['gradient']:.2f} ± {r['error'] / r['gradient']:.2f}" for r in results]
        rows.append([METHODS[method].title, *shares])
    columns = ["method", *(f"a = {a:g}" for a in MEMORIES)]
    table = Table("‖E m − ∇F‖ / ‖∇F‖ at a point that stands still", columns, rows)
    worst = max(METHODS, key=lambda method: found[_cell(protocol, method, MEMORIES[-1]).key]["bias"])
    remark = f"At a point that stands still the mean momentum is farthest from the gradient for {METHODS[worst].title}."
    return Findings([remark], {"still": table})
