"""Plots as inline SVG: each mark carries the words that its tooltip shows; colours come from the page's style."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from songrank.analysis.report.html import Html, join, tag
from songrank.analysis.report.scales import Scale, tick_label

WIDTH, HEIGHT = 460, 312
LEFT, RIGHT, TOP, BOTTOM = 58, 446, 26, 250
_LETTER = 8
"""Width of one, at most, as labels are set; those that would meet stand in two rows."""
COLOURS = 6
"""How many colours the style has; after these they come again, on dashed lines."""


@dataclass(frozen=True)
class Mark:
    """One point: where it stands, how far its interval goes, and what is said about it."""

    x: float
    y: float
    tip: str
    low: float = math.nan
    high: float = math.nan
    chosen: bool = False


@dataclass(frozen=True)
class Series:
    """Marks of one colour, by the number of the method."""

    number: int
    marks: Sequence[Mark]


def curve_plot(title: str, x_title: str, series: Sequence[Series], *, warm_up: int | None) -> Html:
    """Lines with bands; the warm-up is shaded, and chosen epochs are ringed."""
    marks = [mark for one in series for mark in one.marks]
    x = Scale(min(mark.x for mark in marks) - 0.5, max(mark.x for mark in marks) + 0.5, LEFT, RIGHT)
    y = Scale.around(_ends(series), BOTTOM, TOP)
    shade: list[Html] = []
    if warm_up is not None and x.low < warm_up < x.high - 1:
        end = x.place(warm_up + 0.5)
        shade = [
            tag("rect", x=LEFT, y=TOP, width=_px(end - LEFT), height=BOTTOM - TOP, class_="stage"),
            tag("text", "warm-up", x=LEFT, y=TOP - 8, class_="note"),
            tag("text", "fine-tuning", x=_px(end) if end - LEFT > 70 else LEFT + 70, y=TOP - 8, class_="note"),
        ]
    ticks = [(value, tick_label(value)) for value in x.ticks(8) if value == int(value) and value >= 1]
    parts = [join([_band(one, x, y), _line(one, x, y), _dots(one, x, y, radius=2.5)]) for one in series]
    return _plot(title, [*shade, *_axes(x, y, x_title, "", ticks), *parts])


def interval_plot(
    title: str, x_title: str, names: Sequence[str], series: Sequence[Series], *, zero: bool = False
) -> Html:
    """Means with intervals over named places, the series side by side; ``mark.x`` counts the places from 0.

    With ``zero`` there is a line at 0, and each series stands in the middle of a place of its own.
    """
    x = Scale(-0.5, len(names) - 0.5, LEFT, RIGHT)
    y = Scale.around([*_ends(series), *([0.0] if zero else [])], BOTTOM, TOP)
    level = _px(y.place(0))
    parts = [tag("line", x1=LEFT, x2=RIGHT, y1=level, y2=level, class_="reference")] if zero else []
    for at, one in enumerate(series):
        shift = 0.0 if zero else (at - (len(series) - 1) / 2) * min(0.8 / len(series), 0.22)
        moved = Series(one.number, [replace(mark, x=mark.x + shift) for mark in one.marks])
        whiskers = [_whisker(mark, x, y) for mark in moved.marks if math.isfinite(mark.low)]
        parts += [tag("g", *whiskers, class_=_colour(one.number)), _dots(moved, x, y, radius=4.5)]
    return _plot(title, [*_axes(x, y, x_title, "", list(enumerate(names))), *parts])


def scatter_plot(title: str, x_title: str, y_title: str, series: Series, *, log: bool) -> Html:
    """Points about the diagonal, on which they would lie if both coordinates agreed; one scale for both."""
    ends = [end for mark in series.marks for end in (mark.x, mark.y)]
    x, y = Scale.around(ends, LEFT, RIGHT, log=log), Scale.around(ends, BOTTOM, TOP, log=log)
    diagonal = tag("line", x1=LEFT, y1=BOTTOM, x2=RIGHT, y2=TOP, class_="reference")
    ticks = [(value, tick_label(value)) for value in x.ticks()]
    dots = _dots(series, x, y, radius=2.5, faint=True)
    return _plot(title, [*_axes(x, y, x_title, y_title, ticks), diagonal, dots])


def key(labels: Sequence[str]) -> Html:
    """Which colour and line stands for which method."""
    if len(labels) < 2:
        return Html("")

    def sample(number: int) -> Html:
        line = tag("line", x1=1, x2=25, y1=6, y2=6, class_="line")
        dot = tag("circle", cx=13, cy=6, r=4)
        return tag("svg", line, dot, class_=f"sample {_colour(number)}", viewBox="0 0 26 12", aria_hidden="true")

    entries = [tag("li", sample(number), tag("span", label)) for number, label in enumerate(labels)]
    return tag("ul", *entries, class_="key")


def _plot(title: str, parts: Iterable[object]) -> Html:
    box, label = f"0 0 {WIDTH} {HEIGHT}", f"{title}. Arrow keys go from point to point."
    return tag("svg", *parts, class_="plot", viewBox=box, role="img", tabindex=0, aria_label=label)


def _ends(series: Sequence[Series]) -> list[float]:
    return [end for one in series for mark in one.marks for end in (mark.y, mark.low, mark.high)]


def _axes(x: Scale, y: Scale, x_title: str, y_title: str, labels: Sequence[tuple[float, str]]) -> list[Html]:
    parts = []
    for value in y.ticks():
        level = _px(y.place(value))
        parts.append(tag("line", x1=LEFT, x2=RIGHT, y1=level, y2=level, class_="grid"))
        parts.append(tag("text", tick_label(value), x=LEFT - 8, y=level, class_="y-tick"))
    room = (RIGHT - LEFT) / max(len(labels), 1)
    crowded = any(len(label) * _LETTER > room for _, label in labels)
    for at, (value, label) in enumerate(labels):
        lower = 16 if crowded and at % 2 else 0
        most = int(2 * room / _LETTER)
        text = label if len(label) <= most else label[: most - 1] + "…"
        parts.append(tag("text", text, x=_px(x.place(value)), y=BOTTOM + 18 + lower, class_="x-tick"))
    parts.append(tag("line", x1=LEFT, x2=RIGHT, y1=BOTTOM, y2=BOTTOM, class_="axis"))
    if x_title:
        parts.append(tag("text", x_title, x=(LEFT + RIGHT) / 2, y=HEIGHT - 8, class_="title"))
    if y_title:
        parts.append(tag("text", y_title, x=LEFT, y=TOP - 8, class_="note"))
    return parts


def _line(series: Series, x: Scale, y: Scale) -> Html:
    points = _points(((mark.x, mark.y) for mark in series.marks), x, y)
    return tag("polyline", points=points, class_=f"line {_colour(series.number)}")


def _band(series: Series, x: Scale, y: Scale) -> Html:
    marks = [mark for mark in series.marks if math.isfinite(mark.low)]
    if len(marks) < 2:
        return Html("")
    outline = [*((mark.x, mark.high) for mark in marks), *((mark.x, mark.low) for mark in reversed(marks))]
    return tag("polygon", points=_points(outline, x, y), class_=f"band {_colour(series.number)}")


def _points(places: Iterable[tuple[float, float]], x: Scale, y: Scale) -> str:
    return " ".join(f"{_px(x.place(across))},{_px(y.place(up))}" for across, up in places)


def _whisker(mark: Mark, x: Scale, y: Scale) -> Html:
    at = _px(x.place(mark.x))
    return tag("line", x1=at, x2=at, y1=_px(y.place(mark.low)), y2=_px(y.place(mark.high)), class_="whisker")


def _dots(series: Series, x: Scale, y: Scale, *, radius: float, faint: bool = False) -> Html:
    dots = []
    for mark in series.marks:
        size, kind = (6, "mark chosen") if mark.chosen else (radius, "mark")
        at = {"cx": _px(x.place(mark.x)), "cy": _px(y.place(mark.y))}
        dots.append(tag("circle", **at, r=size, class_=kind, data_tip=mark.tip))
    return tag("g", *dots, class_=f"dots{' faint' if faint else ''} {_colour(series.number)}")


def _colour(number: int) -> str:
    return f"s{number % COLOURS}" + (" again" if number >= COLOURS else "")


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
