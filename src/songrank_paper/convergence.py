"""Convergence of methods: validation NDCG@5 against epochs of fine-tuning (the paper's training curves)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from songrank_paper.curve_figures import CurveFigure, Lines
from songrank_paper.experiment import Found
from songrank_paper.methods import Method
from songrank_paper.protocol import SetProtocol


class FigConvergence(CurveFigure):
    """All methods with their chosen settings: the runs of ``table-rs`` and ``table-ltr``."""

    name = "fig-convergence"
    title = "Convergence of all methods: validation NDCG@5 against epochs after the common warm-up"

    def tuned(self, each: SetProtocol) -> Sequence[Method]:
        """All."""
        return each.methods

    def panels(self, each: SetProtocol, found: Found) -> Mapping[str, Lines]:
        """One per set."""
        return {each.panel: {method.title: each.reported(method, found) for method in each.methods}}
