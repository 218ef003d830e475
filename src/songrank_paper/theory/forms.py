"""(g) The forms of the faster losses without noise: all queries and whole lists in each step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from songrank_paper.experiment import Cell, Findings, Found, Table
from songrank_paper.theory.figures import STYLES, log_axes, panels
from songrank_paper.theory.problem import QUERIES, K, make_problem
from songrank_paper.theory.protocol import Protocol
from songrank_paper.theory.runs import Draws, Scorer
from songrank_paper.theory.two_points import FORMS, StepSizes, TwoPoints

DESCENT = "gradient descent"
RATES = (1.0, 0.3)
MEMORY_RATE = 0.1
"""a: the momentum keeps 90 % at first."""


def noise_free(folder: Path, *, form: str, rate: float, steps: int, top_k: bool) -> dict[str, Any]:
    """‖∇F(w_t)‖² after each step of a form with STORM's memory, or of gradient descent with the same step sizes."""
    torch.set_num_threads(1)
    problem, sizes = make_problem(), StepSizes(MEMORY_RATE)
    scorer = Scorer(problem, 1, 1)
    draws = Draws(problem, QUERIES, "all", (0,), K if top_k else None)
    found = []
    if form == DESCENT:
        w = scorer.weights().detach()
        for t in range(1, steps + 1):
            w = w - rate * sizes.eta(t) * problem.gradient(w, top_k=top_k)
            found.append(float(problem.squared_gradient(w, top_k=top_k)))
        return {"squared": found}
    run = TwoPoints(scorer, draws, [rate], sizes, form, top_k=top_k)
    for slate in draws.steps(steps):
        run.step(slate)
        found.append(float(problem.squared_gradient(scorer.weights(), top_k=top_k)))
    return {"squared": found}


def cells(protocol: Protocol, found: Found) -> list[Cell]:
    """A cell per objective, learning rate and form."""
    return [
        _cell(protocol, form, rate, top_k) for top_k in (False, True) for rate in RATES for form in (DESCENT, *FORMS)
    ]


def _cell(protocol: Protocol, form: str, rate: float, top_k: bool) -> Cell:
    options = {"form": form, "rate": rate, "steps": protocol.forms_steps, "top_k": top_k}
    name = f"{'Faster K-SONG' if top_k else 'Faster SONG'} without noise, {form}, learning rate {rate:g}"
    return Cell(name, "songrank_paper.theory.forms:noise_free", options)


def show(protocol: Protocol, found: Found) -> Findings:
    """‖∇F‖² at a tenth of the steps, at the end, and the largest of the last tenth."""
    steps = protocol.forms_steps
    figure, axes = panels(2)
    rows: list[list[str | float | int | None]] = []
    for place, top_k in zip(axes, (False, True), strict=True):
        objective = "F_K" if top_k else "F"
        log_axes(place, f"{objective}, no noise, learning rate {RATES[0]:g}", "step t", f"‖∇{objective}(w_t)‖²")
        for rate in RATES:
            for form, style in zip((DESCENT, *FORMS), STYLES, strict=False):
                values = found[_cell(protocol, form, rate, top_k).key]["squared"]
                if rate == RATES[0]:
                    place.plot(range(1, steps + 1), values, label=form, **style)
                late = max(values[-(steps // 10) :])
                rows.append([objective, rate, form, *(f"{v:.1e}" for v in (values[steps // 10 - 1], values[-1], late))])
        place.legend(fontsize=7)
    columns = ["objective", "learning rate", "form", f"t = {steps // 10}", f"t = {steps}", "largest of the last tenth"]
    table = Table("‖∇F(w_t)‖² without noise", columns, rows)
    ends = {form: max(found[_cell(protocol, form, RATES[0], False).key]["squared"][-(steps // 10) :]) for form in FORMS}
    said = ", ".join(f"{form} {value:.1e}" for form, value in ends.items())
    remark = f"Without noise, ‖∇F‖² over the last tenth of {steps} steps is at most: {said}."
    return Findings([remark], {"forms": table}, {"forms": figure})
