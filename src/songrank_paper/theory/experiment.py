"""All parts of the theory as one experiment."""

from __future__ import annotations

from collections.abc import Sequence

from songrank_paper.experiment import Cell, Experiment, Findings, Found, Plan
from songrank_paper.theory import (
    convergence,
    cost,
    estimation,
    forms,
    lemmas,
    less_noise,
    speed_up,
    still,
    threshold_gradient,
)
from songrank_paper.theory.protocol import FULL, QUICK, Protocol

PARTS = (estimation, forms, convergence, less_noise, still, speed_up, cost, threshold_gradient, lemmas)


class Theory(Experiment):
    """Estimation errors, convergence, speed-up, cost and the lemmas on a problem where F and ∇F are exact.

    Seeds are those of the protocol, separate from the tuning seeds; ``plan.seeds`` is not used.

    Args:
        protocol: protocol to use; by default the full one, or the quick one of a quick plan.

    >>> len(Theory().cells(Plan(quick=True), {})) > 10
    True
    """

    name = "theory"
    title = "The theorems on a small problem: estimation errors, rates, speed-up, cost, lemmas"

    def __init__(self, protocol: Protocol | None = None) -> None:
        self.protocol = protocol

    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """Cells of tuning and, once these are done, of reported runs."""
        protocol = self._protocol(plan)
        wanted = [cell for part in PARTS for cell in part.cells(protocol, found)]
        return list({cell.key: cell for cell in wanted}.values())

    def show(self, plan: Plan, found: Found) -> Findings:
        """The results of all parts, in order."""
        protocol = self._protocol(plan)
        shown = [part.show(protocol, found) for part in PARTS]
        return Findings(
            [remark for each in shown for remark in each.remarks],
            {name: table for each in shown for name, table in each.tables.items()},
            {name: figure for each in shown for name, figure in each.figures.items()},
        )

    def _protocol(self, plan: Plan) -> Protocol:
        return self.protocol or (QUICK if plan.quick else FULL)
