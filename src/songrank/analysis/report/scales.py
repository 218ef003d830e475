"""From values to places on a plot, and the round numbers that its axes show."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Maps values from ``low`` to ``high`` onto a line from ``start`` to ``end``, by value or by order of magnitude.

    >>> Scale(0.0, 10.0, 100.0, 200.0).place(2.5)
    125.0
    >>> Scale(1.0, 100.0, 0.0, 10.0, log=True).place(10.0)
    5.0
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def around(cls, values: Iterable[float], start: float, end: float, *, log: bool = False) -> "Scale":
        """A scale that holds these values with a little room; numbers that are not finite are passed over.

        >>> Scale.around([1.0, 3.0, math.nan], 0.0, 100.0).low
        0.9
        """
        known = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
        low, high = (min(known), max(known)) if known else (1.0, 1.0)
        if log:
            room = max((high / low) ** 0.05, 1.1)
            return cls(low / room, high * room, start, end, log=True)
        room = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
        return cls(low - room, high + room, start, end)

    def place(self, value: float) -> float:
        """Where a value stands."""
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, wanted: int = 5) -> list[float]:
        """Round numbers within the scale, about as many as wanted.

        >>> Scale(0.0, 0.23, 0.0, 1.0).ticks()
        [0.0, 0.05, 0.1, 0.15, 0.2]
        >>> Scale(0.5, 2000.0, 0.0, 1.0, log=True).ticks()
        [1.0, 10.0, 100.0, 1000.0]
        """
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
    """A tick in few letters.

    >>> tick_label(0.25), tick_label(20000.0), tick_label(1e-5)
    ('0.25', '20,000', '1e-05')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:g}"
