"""What variance reduction is worth in practice: SONG and K-SONG against their faster forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from songrank.paper.curve_figures import VALUE, CurveFigure, Lines
from songrank.paper.curves import draw_curves
from songrank.paper.experiment import Findings, Found, Plan
from songrank.paper.methods import Method
from songrank.paper.protocol import SetProtocol, protocols


class FigFaster(CurveFigure):
    """Each form with a setting of its own, against epochs (as many steps for all) and against seconds."""

    name = "fig-faster"
    title = "SONG and K-SONG against their faster forms, by steps and by time"
    note = "Seconds are those of the runs themselves, validation included; for exact ones let nothing run beside them."
    tasks = ("recommendation",)

    def tuned(self, each: SetProtocol) -> Sequence[Method]:
        """Both, and their faster forms."""
        plain = [each.method("song"), each.method("k-song")]
        return [*plain, *(replace(one, name=f"faster-{one.name}", title=f"Faster {one.title}") for one in plain)]

    def panels(self, each: SetProtocol, found: Found) -> Mapping[str, Lines]:
        """One a set."""
        return {each.panel: {method.title: each.reported(method, found) for method in self.tuned(each)}}

    def show(self, plan: Plan, found: Found) -> Findings:
        """The same curves a second time, against seconds."""
        findings = super().show(plan, found)
        timed = {}
        for each in protocols(plan, self.tasks, self.changes, self.most):
            for title, lines in self.panels(each, found).items():
                timed[title] = {
                    label: _by_seconds([found[one.cell.key] for one in own]) for label, own in lines.items()
                }
        figure = draw_curves(timed, value=VALUE, epochs="seconds of fine-tuning")
        return replace(findings, figures={**findings.figures, "seconds": figure})


def _by_seconds(runs: Sequence[Mapping[str, object]]) -> list[list[list[float]]]:
    """Curves against the time that an epoch took on average over all seeds, so that they can be averaged, too.

    >>> _by_seconds([{"curve": [[1, 0.1], [2, 0.3]], "seconds": 6.0}, {"curve": [[1, 0.2], [2, 0.4]], "seconds": 2.0}])
    [[[2.0, 0.1], [4.0, 0.3]], [[2.0, 0.2], [4.0, 0.4]]]
    """
    kept = [run for run in runs if run.get("curve")]
    curves: list[list[list[float]]] = [run["curve"] for run in kept]  # type: ignore[misc]
    seconds: list[float] = [run["seconds"] for run in kept]  # type: ignore[misc]
    if not curves:
        return []
    each = sum(seconds) / sum(curve[-1][0] for curve in curves)
    return [[[epoch * each, value] for epoch, value in curve] for curve in curves]
