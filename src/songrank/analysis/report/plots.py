"""Plots as inline SVG; each mark has a tooltip, and colours are those of the page's style."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from songrank.analysis.report.html import Html, tag

WIDTH, HEIGHT = 460, 312
LEFT, RIGHT, TOP, BOTTOM = 58, 446, 26, 250
_LETTER = 8  # largest width of a letter; labels that would overlap are set in two rows
_COLOURS = 6  # of the style; further series repeat them with dashed lines


@dataclass(frozen=True)
class Mark:
    """A point: position, tooltip, interval, and whether it has a ring."""

    x: float
    y: float
    tip: str
    low: float = math.nan
    high: float = math.nan
    chosen: bool = False


@dataclass(frozen=True)
class Series:
    """Marks of one colour, which is that of the method with this number."""

    number: int
    marks: Sequence[Mark]


@dataclass(frozen=True)
class Scale:
    """Maps values from ``low`` to ``high`` onto a line from ``start`` to ``end``, on a linear or a log scale."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def around(cls, values: Iterable[float], start: float, end: float, *, log: bool = False) -> "Scale":
        """A scale for these values with a margin; values that are not finite are ignored."""
        known = [value for value in values if math.isfinite(value) and (value > 0 or not log)] or [1.0]
        low, high = min(known), max(known)
        if log:
            room = max((high / low) ** 0.05, 1.1)
            return cls(low / room, high * room, start, end, log=True)
        room = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
        return cls(low - room, high + room, start, end)

    def place(self, value: float) -> float:
        """The position of a value."""
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, wanted: int = 5) -> list[float]:
        """About the requested number of round values within the scale."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for steps in ((1,), (1, 3), (1, 2, 5)):
                found = [step * 10.0**power for power in powers for step in steps]
                found = [value for value in found if self.low <= value <= self.high]
                if len(found) >= 3:
                    return found[:: math.ceil(len(found) / (wanted + 2))]
        rough = (self.high - self.low) / wanted
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [round(at * step, 12) + 0.0 for at in range(first, math.floor(self.high / step + 1e-9) + 1)]


def tick_label(value: float) -> str:
    """A short tick label."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:g}"


@dataclass(frozen=True)
class _Frame:
    """The scales of a plot, in which elements are placed by value."""

    x: Scale
    y: Scale

    def line(self, kind: str, x1: float, y1: float, x2: float, y2: float) -> Html:
        begin, end = (_px(self.x.place(x1)), _px(self.y.place(y1))), (_px(self.x.place(x2)), _px(self.y.place(y2)))
        return tag("line", x1=begin[0], y1=begin[1], x2=end[0], y2=end[1], class_=kind)

    def path(self, shape: str, kind: str, number: int, places: Iterable[tuple[float, float]]) -> Html:
        points = " ".join(f"{_px(self.x.place(x))},{_px(self.y.place(y))}" for x, y in places)
        return tag(shape, points=points, class_=f"{kind} {_colour(number)}")

    def dots(self, series: Series, *, radius: float, shift: float = 0.0, kind: str = "dots") -> Html:
        dots = []
        for mark in series.marks:
            size, mark_kind = (6, "mark chosen") if mark.chosen else (radius, "mark")
            at = {"cx": _px(self.x.place(mark.x + shift)), "cy": _px(self.y.place(mark.y))}
            dots.append(tag("circle", **at, r=size, class_=mark_kind, data_tip=mark.tip))
        return tag("g", *dots, class_=f"{kind} {_colour(series.number)}")

    def axes(self, labels: Sequence[tuple[float, str]], x_title: str, y_title: str = "") -> list[Html]:
        """Both axes and the grid; ``labels`` are the labels of the x-axis."""
        axes = []
        for value in self.y.ticks():
            axes.append(self.line("grid", self.x.low, value, self.x.high, value))
            axes.append(tag("text", tick_label(value), x=LEFT - 8, y=_px(self.y.place(value)), class_="y-tick"))
        room = (RIGHT - LEFT) / max(len(labels), 1)
        crowded, most = any(len(label) * _LETTER > room for _, label in labels), int(2 * room / _LETTER)
        for at, (value, label) in enumerate(labels):
            text = label if len(label) <= most else label[: most - 1] + "…"
            level = BOTTOM + (34 if crowded and at % 2 else 18)
            axes.append(tag("text", text, x=_px(self.x.place(value)), y=level, class_="x-tick"))
        axes.append(self.line("axis", self.x.low, self.y.low, self.x.high, self.y.low))
        axes += [tag("text", x_title, x=(LEFT + RIGHT) / 2, y=HEIGHT - 8, class_="title")] if x_title else []
        return axes + ([tag("text", y_title, x=LEFT, y=TOP - 8, class_="note")] if y_title else [])


def _plot(title: str, *parts: Html) -> Html:
    box, about = f"0 0 {WIDTH} {HEIGHT}", f"{title}. Arrow keys move between points."
    return tag("svg", *parts, class_="plot", viewBox=box, role="img", tabindex=0, aria_label=about)


def curve_plot(title: str, x_title: str, series: Sequence[Series], *, warm_up: int | None) -> Html:
    """Lines with bands; the warm-up is shaded, and chosen epochs have a ring."""
    places = [mark.x for one in series for mark in one.marks]
    x = Scale(min(places) - 0.5, max(places) + 0.5, LEFT, RIGHT)
    frame = _Frame(x, Scale.around(_ends(series), BOTTOM, TOP))
    parts: list[Html] = []
    stages: list[Html] = []
    if warm_up is not None and x.low < warm_up < x.high - 1:
        end = x.place(warm_up + 0.5)
        stages = [
            tag("rect", x=LEFT, y=TOP, width=_px(end - LEFT), height=BOTTOM - TOP, class_="stage"),
            tag("text", "warm-up", x=LEFT, y=TOP - 8, class_="note"),
            tag("text", "fine-tuning", x=_px(max(end, LEFT + 70)), y=TOP - 8, class_="note"),
        ]
    for one in series:
        certain = [mark for mark in one.marks if math.isfinite(mark.low)]
        if len(certain) > 1:
            outline = [*((mark.x, mark.high) for mark in certain), *((mark.x, mark.low) for mark in reversed(certain))]
            parts.append(frame.path("polygon", "band", one.number, outline))
        parts.append(frame.path("polyline", "line", one.number, ((mark.x, mark.y) for mark in one.marks)))
        parts.append(frame.dots(one, radius=2.5))
    ticks = [(value, tick_label(value)) for value in x.ticks(8) if value == int(value) and value >= 1]
    return _plot(title, *stages, *frame.axes(ticks, x_title), *parts)


def interval_plot(title: str, x_title: str, names: Sequence[str], series: Sequence[Series], zero: bool = False) -> Html:
    """Means with intervals by category ``mark.x``, side by side; ``zero``: a line at 0 and a category per series."""
    x = Scale(-0.5, len(names) - 0.5, LEFT, RIGHT)
    frame = _Frame(x, Scale.around([*_ends(series), *([0.0] if zero else [])], BOTTOM, TOP))
    parts = [frame.line("reference", x.low, 0, x.high, 0)] if zero else []
    for at, one in enumerate(series):
        shift = 0.0 if zero else (at - (len(series) - 1) / 2) * min(0.8 / len(series), 0.22)
        ends = [(mark.x + shift, mark.low, mark.high) for mark in one.marks if math.isfinite(mark.low)]
        whiskers = [frame.line("whisker", place, low, place, high) for place, low, high in ends]
        parts += [tag("g", *whiskers, class_=_colour(one.number)), frame.dots(one, radius=4.5, shift=shift)]
    return _plot(title, *frame.axes(list(enumerate(names)), x_title), *parts)


def scatter_plot(title: str, x_title: str, y_title: str, series: Series, *, log: bool) -> Html:
    """Points and the diagonal of equal coordinates; both axes share a scale."""
    ends = [end for mark in series.marks for end in (mark.x, mark.y)]
    x, y = Scale.around(ends, LEFT, RIGHT, log=log), Scale.around(ends, BOTTOM, TOP, log=log)
    frame, ticks = _Frame(x, y), [(value, tick_label(value)) for value in x.ticks()]
    parts = frame.line("reference", x.low, y.low, x.high, y.high), frame.dots(series, radius=2.5, kind="dots faint")
    return _plot(title, *frame.axes(ticks, x_title, y_title), *parts)


def key(labels: Sequence[str]) -> Html:
    """The legend of the methods."""
    if len(labels) < 2:
        return Html("")
    sample = tag("line", x1=1, x2=25, y1=6, y2=6, class_="line"), tag("circle", cx=13, cy=6, r=4)
    box = {"viewBox": "0 0 26 12", "aria_hidden": "true"}
    samples = [tag("svg", *sample, class_=f"sample {_colour(number)}", **box) for number in range(len(labels))]
    entries = [tag("li", one, tag("span", label)) for one, label in zip(samples, labels, strict=True)]
    return tag("ul", *entries, class_="key")


def _ends(series: Sequence[Series]) -> list[float]:
    return [end for one in series for mark in one.marks for end in (mark.y, mark.low, mark.high)]


def _colour(number: int) -> str:
    return f"s{number % _COLOURS}" + (" again" if number >= _COLOURS else "")


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
