"""Axes and lines of the theory figures, readable in black and white."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#000000", "linestyle": "-"},
    {"color": "#1f5fa8", "linestyle": "--"},
    {"color": "#b3432b", "linestyle": "-."},
    {"color": "#3a7d44", "linestyle": ":", "linewidth": 2.2},
    {"color": "#7a4fa3", "linestyle": (0, (5, 1, 1, 1, 1, 1))},
    {"color": "#c98a00", "linestyle": (0, (7, 2))},
)
"""Line styles with different dashes."""


def panels(count: int) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side.

    >>> figure, axes = panels(2)
    >>> len(axes)
    2
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.3 * count, 3.6), layout="constrained")
    return figure, [figure.add_subplot(1, count, at + 1) for at in range(count)]


def log_axes(axes: Axes, title: str, x: str, y: str) -> None:
    """Log axes with their labels and a thin grid."""
    axes.set(title=title, xlabel=x, ylabel=y, xscale="log", yscale="log")
    axes.grid(linewidth=0.3, color="#bbbbbb")


def banded(axes: Axes, x: Sequence[float], values: Tensor, label: str, style: dict[str, Any]) -> None:
    """The mean over seeds of values [seeds, x], and a band from minimum to maximum."""
    axes.plot(x, values.mean(0).tolist(), label=label, **{"linewidth": 1.4, **style})
    low, high = values.amin(0).tolist(), values.amax(0).tolist()
    axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)


def guide(axes: Axes, x: tuple[float, float], start: float, slope: float, label: str) -> None:
    """A thin line of this slope on log axes, for comparison."""
    axes.plot(x, (start, start * (x[1] / x[0]) ** slope), color="#777777", linewidth=0.8, label=label)


def thinned(times: Sequence[int], first: int) -> list[int]:
    """Indices of times from ``first`` on, about twelve per factor of ten, for a plot.

    >>> [list(range(1, 200))[at] for at in thinned(range(1, 200), first=100)]
    [100, 120, 144, 173, 199]
    """
    kept: list[int] = []
    for at, time in enumerate(times):
        last = at == len(times) - 1
        if time >= first and (last or not kept or time >= 1.2 * times[kept[-1]]):
            kept.append(at)
    return kept


def fitted_slope(x: Sequence[float], y: Tensor) -> tuple[float, float]:
    """The slope of log y [seeds, x] in log x: mean over seeds, and half-width of its 95 % interval (Student's t).

    >>> x = torch.tensor([1.0, 10.0, 100.0])
    >>> fitted_slope(x.tolist(), torch.stack([x**-0.5, x**-0.7]))[0]
    -0.6
    """
    logs = torch.tensor(x, dtype=torch.float64).log()
    centred = logs - logs.mean()
    mean, half = mean_interval((y.double().log() * centred).sum(1) / centred.square().sum())
    return round(mean, 6), half


def mean_interval(values: Tensor) -> tuple[float, float]:
    """The mean of values [seeds], and half-width of its 95 % interval (Student's t).

    >>> mean_interval(torch.tensor([1.0, 3.0]))
    (2.0, 12.71)
    """
    count = len(values)
    half = float(values.std() / count**0.5) * _T975.get(count, 1.96) if count > 1 else float("nan")
    return float(values.mean()), round(half, 6)


_T975 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
"""Student's t at 97.5 %, by the number of seeds."""
