"""(h) SONG and the forms of Faster SONG with less noise: more queries and items per step."""

from __future__ import annotations

from songrank_paper.experiment import Cell, Findings, Found, Table
from songrank_paper.theory.figures import mean_interval
from songrank_paper.theory.methods import METHODS
from songrank_paper.theory.protocol import Protocol
from songrank_paper.theory.tuned import Tuned

SIZES = 25, 32
"""|B| and |B_q|."""
NAMES = ("song", "lagged-song", "corrected-song", "corrected-average-song")


def studies(protocol: Protocol, found: Found) -> dict[str, Tuned]:
    """The methods, tuned at these sizes."""
    return {name: Tuned(name, protocol, *SIZES, protocol.quiet_steps, found) for name in NAMES}


def cells(protocol: Protocol, found: Found) -> list[Cell]:
    """Cells of tuning, then of reported runs."""
    return [cell for study in studies(protocol, found).values() for cell in study.cells()]


def show(protocol: Protocol, found: Found) -> Findings:
    """E‖∇F(w_τ)‖² at the end: the mean, the median and the largest over seeds."""
    rows: list[list[str | float | int | None]] = []
    means = {}
    for name, study in studies(protocol, found).items():
        ends = study.curve()[:, -1]
        means[METHODS[name].title], _ = mean_interval(ends)
        late = float(study.late_curve().mean())
        spread = [f"{float(value):.2e}" for value in (ends.mean(), ends.median(), ends.max())]
        rows.append([METHODS[name].title, *spread, "a = {:g}, {:g}".format(*study.chosen[-1]), f"{late:.2e}"])
    columns = ["method", "mean", "median", "largest of the seeds", "a, learning rate", "‖∇F‖² over the second half"]
    title = f"E‖∇F(w_τ)‖² at T = {protocol.quiet_steps}, |B| = {SIZES[0]}, |B_q| = {SIZES[1]}"
    order = sorted(means, key=lambda title: means[title])
    return Findings(
        [f"With less noise, E‖∇F‖² is smallest for {order[0]}."], {"less-noise": Table(title, columns, rows)}
    )
