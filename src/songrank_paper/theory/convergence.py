"""(b) Decrease of E‖∇F(w_τ)‖² with T, compared with the rates of the theorems."""

from __future__ import annotations

from collections.abc import Sequence

from songrank_paper.experiment import Cell, Findings, Found, Table
from songrank_paper.theory.figures import (
    STYLES,
    banded,
    fitted_slope,
    guide,
    log_axes,
    mean_interval,
    panels,
    thinned,
)
from songrank_paper.theory.methods import METHODS
from songrank_paper.theory.protocol import Protocol
from songrank_paper.theory.tuned import Tuned

PANELS = {
    "F": ("biased", "song", "faster-song", "exact-lag-song", "lagged-song", "corrected-song"),
    "F_K": ("k-song", "faster-k-song", "exact-lag-k-song", "lagged-k-song", "corrected-k-song"),
}
"""Methods of the figures: SONG of the package, then the forms with two points; tables have all methods."""


def studies(protocol: Protocol, found: Found) -> dict[str, Tuned]:
    """All methods, tuned at the |B| and |B_q| of the protocol."""
    sizes = protocol.batch, protocol.irrelevant, protocol.steps
    return {name: Tuned(name, protocol, *sizes, found) for name in METHODS}


def cells(protocol: Protocol, found: Found) -> list[Cell]:
    """Cells of tuning, then of reported runs."""
    return [cell for study in studies(protocol, found).values() for cell in study.cells()]


def show(protocol: Protocol, found: Found) -> Findings:
    """Curves with bands, fitted and theoretical slopes, and iterations to each tolerance."""
    made = studies(protocol, found)
    figure, axes = panels(len(PANELS))
    for place, (objective, names) in zip(axes, PANELS.items(), strict=True):
        log_axes(place, objective, "iterations T", f"E‖∇{objective}(w_τ)‖², τ ≤ T")
        for name, style in zip(names, STYLES[-len(names) :], strict=True):
            study = made[name]
            at = thinned(study.times, 30)
            banded(place, [study.times[i] for i in at], study.curve()[:, at], METHODS[name].title, style)
        ends = float(protocol.fit_from), float(protocol.steps)
        level = float(made[names[-1]].curve().mean(0)[thinned(made[names[-1]].times, protocol.fit_from)[0]])
        guide(place, ends, 0.6 * level, -0.5, "slope −1/2")
        guide(place, ends, 0.35 * level, -2.0 / 3.0, "slope −2/3")
        place.legend(fontsize=7)
    tables = {"slopes": _slopes(protocol, made), "tolerances": _tolerances(protocol, made)}
    return Findings(_remarks(protocol, made), tables, {"convergence": figure})


def _slopes(protocol: Protocol, made: dict[str, Tuned]) -> Table:
    columns = ["method", "slope fitted", "± (95 %)", "theorem", f"E‖∇F‖² at T = {protocol.steps}"]
    columns += ["a, learning rate", "‖∇F‖² over the second half", "final F"]
    rows = []
    for name, study in made.items():
        slope, half = _slope(protocol, study)
        constants = "a = {:g}, {:g}".format(*study.chosen[-1])
        last = float(study.curve()[:, -1].mean())
        late, value = float(study.late_curve().mean()), float(study.late_value().mean())
        rate = METHODS[name].theorem
        theorem = "none" if rate is None else f"{rate:.2f}"
        start = [METHODS[name].title, f"{slope:.2f}", f"{half:.2f}", theorem, f"{last:.2e}", constants]
        rows.append([*start, f"{late:.2e}", f"{value:.4f}"])
    return Table("Decrease of E‖∇F(w_τ)‖² with T", columns, rows)


def _slope(protocol: Protocol, study: Tuned) -> tuple[float, float]:
    at = thinned(study.times, protocol.fit_from)
    return fitted_slope([study.times[i] for i in at], study.curve()[:, at])


def _tolerances(protocol: Protocol, made: dict[str, Tuned]) -> Table:
    columns = ["ε", *(METHODS[name].title for name in made)]
    rows = [
        [f"{tolerance:g}", *(_reach(tolerance, study) for study in made.values())] for tolerance in protocol.tolerances
    ]
    return Table("Iterations (gradient evaluations) until E‖∇F(w_τ)‖² ≤ ε²", columns, rows)


def _reach(tolerance: float, study: Tuned) -> str:
    steps = study.reach(tolerance)
    return "not reached" if steps is None else f"{steps} ({steps * METHODS[study.method].points})"


def _remarks(protocol: Protocol, made: dict[str, Tuned]) -> list[str]:
    found = []
    for objective, names in PANELS.items():
        firsts = [_first(tolerance, [made[name] for name in names]) for tolerance in protocol.tolerances]
        reached = "; ".join(first for first in firsts if first) or "no tolerance was reached"
        found.append(f"{objective}: fastest to a tolerance in iterations (in gradient evaluations): {reached}.")
        plain = names[-5]
        for form in names[-3:]:
            mean, half = mean_interval(made[form].curve()[:, -1] - made[plain].curve()[:, -1])
            titles = f"{METHODS[form].title} minus {METHODS[plain].title}"
            said = f"{objective} at T = {protocol.steps}, {titles}: {mean:.1e} ± {half:.1e} (95 %, paired by seed)."
            found.append(said)
        late = {METHODS[name].title: float(made[name].late_curve().mean()) for name in names}
        values = ", ".join(f"{title} {late[title]:.1e}" for title in sorted(late, key=lambda title: late[title]))
        found.append(f"{objective}: ‖∇{objective}‖² over the second half of {protocol.steps} steps: {values}.")
    return found


def _first(tolerance: float, rivals: Sequence[Tuned]) -> str | None:
    """The fastest method to a tolerance; by evaluations it is open if a method with one point had a smaller budget."""
    steps = {study.method: study.reach(tolerance) for study in rivals}
    costs = {method: t * METHODS[method].points for method, t in steps.items() if t is not None}
    if not costs:
        return None
    fewest = min(costs, key=lambda method: costs[method] / METHODS[method].points)
    cheapest = min(costs, key=lambda method: costs[method])
    spent = [study.steps * METHODS[study.method].points for study in rivals if study.method not in costs]
    is_open = any(budget < costs[cheapest] for budget in spent)
    return f"ε = {tolerance:g}: {METHODS[fewest].title} ({'open' if is_open else METHODS[cheapest].title})"
