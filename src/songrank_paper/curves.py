"""Curves over epochs: the mean over seeds with a band from minimum to maximum, and a summary table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from songrank_paper.experiment import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = Sequence[Sequence[float]]
"""Epochs and values of a run."""
_LOOKS = [("-", ""), ("--", "o"), ("-.", "s"), (":", "^"), ("-", "D"), ("--", "v"), ("-.", "x"), (":", "*")]


def draw_curves(
    panels: Mapping[str, Mapping[str, Sequence[Curve]]], *, value: str, epochs: str = "epochs", log: bool = False
) -> Figure:
    """Draw a panel per title, side by side, with a line per label.

    Args:
        panels: curves of all seeds, by title, then by label.
        value: label of the y-axis.
        epochs: label of the x-axis.
        log: whether the y-axis is logarithmic.

    >>> draw_curves({"some": {"song": [[[1, 0.1], [2, 0.2]]]}}, value="NDCG@5").axes[0].get_title()
    'some'
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(0.8 + 4.6 * len(panels), 3.8), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for place, (title, lines) in zip(axes, panels.items(), strict=True):
        for (label, runs), (dash, marker) in zip(lines.items(), cycle(_LOOKS), strict=False):
            if not runs:
                continue
            points = summarise(runs)
            at, mean, low, high = ([point[part] for point in points] for part in range(4))
            (line,) = place.plot(at, mean, dash, marker=marker, markersize=3, linewidth=1.4, label=label)
            place.fill_between(at, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        place.set(title=title, xlabel=epochs, ylabel=value)
        if log:
            place.set_yscale("log")
        place.grid(alpha=0.3)
        if place.get_lines():
            place.legend(fontsize="small")
    return figure


def summarise(runs: Sequence[Curve]) -> list[tuple[float, float, float, float]]:
    """Epoch, mean, minimum and maximum over the runs, for the epochs that all runs have.

    >>> summarise([[[1, 0.25], [2, 0.5]], [[1, 0.75]]])
    [(1, 0.5, 0.25, 0.75)]
    """
    tables = [{point[0]: point[1] for point in run} for run in runs]
    common = [epoch for epoch in tables[0] if all(epoch in table for table in tables)]
    columns = [[table[epoch] for table in tables] for epoch in common]
    return [
        (epoch, sum(column) / len(column), min(column), max(column))
        for epoch, column in zip(common, columns, strict=True)
    ]


def diverged_remarks(title: str, runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Remarks on diverged runs, which are missing from curves, means and rankings.

    >>> diverged_remarks("yelp", {"SONG": [{"curve": []}, {"diverged": "step 3"}], "K-SONG": [{"curve": []}]})
    ['yelp: SONG diverged with 1 of 2 seeds.']
    """
    lost = {label: sum("diverged" in one for one in own) for label, own in runs.items()}
    return [f"{title}: {label} diverged with {n} of {len(runs[label])} seeds." for label, n in lost.items() if n]


def curve_table(
    title: str, panels: Mapping[str, Mapping[str, Sequence[Curve]]], value: str, *, lowest: bool = False
) -> Table:
    """Summarise each curve: its best mean (the highest by default), the epoch of it, and the last values.

    >>> curve_table("Curves", {"set": {"song": [[[1, 0.3], [2, 0.2]]]}}, "NDCG@5").rows
    [['set', 'song', 1, 0.3, 1, 0.2, 0.2, 0.2]]
    """
    columns = ["set", "curve", "seeds", f"best mean {value}", "at epoch", "last mean", "last minimum", "last maximum"]
    rows: list[list[str | float | int | None]] = []
    for panel, lines in panels.items():
        for label, runs in lines.items():
            if not runs:
                rows.append([panel, label, 0, *[None] * 5])
                continue
            points = summarise(runs)
            best = max(points, key=lambda point: -point[1] if lowest else point[1])
            last = [round(number, 5) for number in points[-1][1:]]
            rows.append([panel, label, len(runs), round(best[1], 5), int(best[0]), *last])
    return Table(title, columns, rows)
