"""Effect of variance reduction: SONG and K-SONG compared with their faster forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from songrank_paper.curve_figures import VALUE, CurveFigure, Lines, curves_of
from songrank_paper.curves import Curve, draw_curves
from songrank_paper.experiment import Findings, Found, Plan, Table
from songrank_paper.methods import Method
from songrank_paper.protocol import SetProtocol, Training, protocols


class FigFaster(CurveFigure):
    """Each form with its own setting, against epochs (equal numbers of steps) and against seconds."""

    name = "fig-faster"
    title = "SONG and K-SONG compared with their faster forms, by steps and by time"
    note = (
        "Seconds are epochs times the median seconds per epoch, measured separately without evaluation, one run at a "
        "time; other work on the machine affects them."
    )
    tasks = ("recommendation",)
    compared = True

    def tuned(self, each: SetProtocol) -> Sequence[Method]:
        """Both losses, and their faster forms."""
        plain = [each.method("song"), each.method("k-song")]
        return [*plain, *(replace(one, name=f"faster-{one.name}", title=f"Faster {one.title}") for one in plain)]

    def panels(self, each: SetProtocol, found: Found) -> Mapping[str, Lines]:
        """One per set."""
        return {each.panel: {method.title: each.reported(method, found) for method in self.tuned(each)}}

    def timings(self, each: SetProtocol, found: Found) -> dict[str, Training]:
        """Timed epochs of each form with a chosen setting."""
        chosen = {method.title: each.chosen(method, found) for method in self.tuned(each)}
        return {label: each.by_the_clock(label, one) for label, one in chosen.items() if one is not None}

    def trainings(self, plan: Plan, found: Found) -> Iterable[Training]:
        """Cells of the curves, and timed cells."""
        yield from super().trainings(plan, found)
        for each in protocols(plan, self.tasks, self.changes, self.most):
            yield from self.timings(each, found).values()

    def show(self, plan: Plan, found: Found) -> Findings:
        """The curves against epochs and against seconds."""
        findings = super().show(plan, found)
        curves: dict[str, dict[str, list[Curve]]] = {}
        rows: list[list[str | float | int | None]] = []
        remarks = list(findings.remarks)
        for each in protocols(plan, self.tasks, self.changes, self.most):
            results = {label: found[one.cell.key] for label, one in self.timings(each, found).items()}
            seconds = {label: one["seconds"] for label, one in results.items() if "diverged" not in one}
            rows += [[each.label, label, round(value, 4)] for label, value in seconds.items()]
            lost = [label for label in results if label not in seconds]
            remarks += [f"{each.label}: {label} diverged within the timed epochs." for label in lost]
            for title, lines in self.panels(each, found).items():
                own = curves_of(lines, found)
                curves[title] = {label: by_seconds(own[label], value) for label, value in seconds.items()}
        figure = draw_curves(curves, value=VALUE, epochs="seconds of fine-tuning")
        table = Table("Median seconds per epoch", ["set", "form", "seconds"], rows)
        return Findings(remarks, {**findings.tables, "seconds": table}, {**findings.figures, "seconds": figure})


def by_seconds(curves: Sequence[Curve], seconds: float) -> list[Curve]:
    """Curves against time, given the seconds per epoch.

    >>> by_seconds([[[1, 0.1], [2, 0.3]]], 2.5)
    [[[2.5, 0.1], [5.0, 0.3]]]
    """
    return [[[epoch * seconds, value] for epoch, value in curve] for curve in curves]
