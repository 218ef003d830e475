"""The theory, running: all parts as one experiment."""

from __future__ import annotations

from collections.abc import Sequence

from songrank_paper.experiment import Cell, Experiment, Findings, Found, Plan
from songrank_paper.theory import convergence, cost, estimation, speed_up, still
from songrank_paper.theory.protocol import FULL, QUICK, Protocol

PARTS = (estimation, convergence, still, speed_up, cost)


class Theory(Experiment):
    """Estimation errors, convergence, speed-up and cost on a problem where F and ∇F are exact.

    Its seeds are fixed with the protocol, apart from those of tuning; ``plan.seeds`` does not change them.

    Args:
        protocol: in place of the full one, or of the quick one where the plan is quick.

    >>> len(Theory().cells(Plan(quick=True), {})) > 10
    True
    """

    name = "theory"
    title = "The theorems on a small problem: estimation errors, rates, speed-up, cost"

    def __init__(self, protocol: Protocol | None = None) -> None:
        self.protocol = protocol

    def cells(self, plan: Plan, found: Found) -> Sequence[Cell]:
        """Cells that tune, and once these are done, those that are reported."""
        protocol = self._protocol(plan)
        wanted = [cell for part in PARTS for cell in part.cells(protocol, found)]
        return list({cell.key: cell for cell in wanted}.values())

    def show(self, plan: Plan, found: Found) -> Findings:
        """What all parts show, in order."""
        protocol = self._protocol(plan)
        shown = [part.show(protocol, found) for part in PARTS]
        return Findings(
            [remark for each in shown for remark in each.remarks],
            {name: table for each in shown for name, table in each.tables.items()},
            {name: figure for each in shown for name, figure in each.figures.items()},
        )

    def _protocol(self, plan: Plan) -> Protocol:
        return self.protocol or (QUICK if plan.quick else FULL)
