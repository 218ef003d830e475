"""(c) Iterations of SONG to reach a tolerance, by |B| and by |B_q|."""

from __future__ import annotations

from dataclasses import replace

from songrank_paper.experiment import Cell, Findings, Found, Table
from songrank_paper.theory.figures import STYLES, guide, log_axes, panels
from songrank_paper.theory.protocol import Protocol
from songrank_paper.theory.tuned import Tuned

METHOD = "song"


def studies(protocol: Protocol, found: Found) -> dict[str, dict[int, Tuned]]:
    """SONG tuned at each |B| with the default |B_q|, and at each |B_q| with the default |B|."""
    protocol = replace(protocol, memories=protocol.speed_memories)
    batch, irrelevant, steps = protocol.batch, protocol.irrelevant, protocol.speed_steps
    return {
        "|B|": {size: Tuned(METHOD, protocol, size, irrelevant, steps, found) for size in protocol.batches},
        "|B_q|": {size: Tuned(METHOD, protocol, batch, size, steps, found) for size in protocol.irrelevants},
    }


def cells(protocol: Protocol, found: Found) -> list[Cell]:
    """Cells of tuning, then of reported runs; the two sweeps share a setting."""
    wanted = [cell for sweep in studies(protocol, found).values() for study in sweep.values() for cell in study.cells()]
    return list({cell.key: cell for cell in wanted}.values())


def show(protocol: Protocol, found: Found) -> Findings:
    """Iterations against batch sizes, with a guide line of linear speed-up."""
    figure, axes = panels(2)
    rows: list[list[str | float | int | None]] = []
    remarks = []
    for place, (what, sweep) in zip(axes, studies(protocol, found).items(), strict=True):
        log_axes(place, "SONG, tuned for each size and T", what, "iterations T to ‖∇F‖ ≤ ε")
        reached = {tolerance: _reached(sweep, tolerance) for tolerance in protocol.speed_tolerances}
        for (tolerance, known), style in zip(reached.items(), STYLES, strict=False):
            place.plot(list(known), list(known.values()), marker="o", label=f"ε = {tolerance:g}", **style)
            if len(known) > 1:
                remarks.append(_remark(what, known, tolerance))
        longest = max(reached.values(), key=len)
        if longest:
            ends = float(min(longest)), float(max(longest))
            guide(place, ends, longest[min(longest)], -1.0, f"1/{what}")
        place.legend(fontsize=7)
        for size, study in sweep.items():
            steps = [known.get(size, "not reached") for known in reached.values()]
            rows.append([what, size, *steps, f"{float(study.curve()[:, -1].mean()):.2e}"])
    columns = ["varied", "size", *(f"ε = {tolerance:g}" for tolerance in protocol.speed_tolerances)]
    columns.append(f"E‖∇F‖² at T = {protocol.speed_steps}")
    table = Table("Iterations of SONG until E‖∇F(w_τ)‖² ≤ ε²", columns, rows)
    return Findings(remarks, {"speed-up": table}, {"speed-up": figure})


def _reached(sweep: dict[int, Tuned], tolerance: float) -> dict[int, int]:
    steps = {size: study.reach(tolerance) for size, study in sweep.items()}
    return {size: value for size, value in steps.items() if value is not None}


def _remark(what: str, known: dict[int, int], tolerance: float) -> str:
    small, large = min(known), max(known)
    gain = known[small] / known[large]
    return (
        f"{what} from {small} to {large} ({large / small:.3g} times) takes SONG from {known[small]} to {known[large]} "
        f"iterations to ‖∇F‖ ≤ {tolerance:g}: {gain:.1f} times fewer."
    )
