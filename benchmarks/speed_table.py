"""The table of speed.py, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_WIDTHS = (44, 12, 12, 12, 9)


@dataclass(frozen=True)
class Row:
    """A measurement with its references.

    Args:
        name: name of the measurement.
        value: measured value; None if there is none, with the reason in a note.
        unit: unit of value, target, floor and peers.
        target: largest acceptable value on an H200, or on every device with ``everywhere``.
        floor: lower bound by bytes and operations at the peak rates of this machine.
        peers: values of other implementations.
        notes: further lines.
        everywhere: whether the target is a ratio, which holds on every device.
    """

    name: str
    value: float | None
    unit: str = "ms"
    target: float | None = None
    floor: float | None = None
    peers: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()
    everywhere: bool = False


class Table:
    """Prints each row, and writes all rows as JSON after each."""

    def __init__(self, machine: Mapping[str, Any], *, targets: bool, file: Path | None) -> None:
        self.machine, self.targets, self.file = machine, targets, file
        self.rows: list[dict[str, Any]] = []
        for name, value in machine.items():
            print(f"{name}: {value}")

    def section(self, title: str, rows: Iterable[Row]) -> None:
        """Show the rows of a section."""
        heads = (title, "measured", "target", "floor", "× floor")
        print("\n" + _line(heads) + "  peers (their time / ours)")
        for row in rows:
            self._show(row)
            entry = {"section": title, **asdict(row)}
            self.rows.append(entry if self.targets or row.everywhere else {**entry, "target": None})
            if self.file is not None:
                self.file.write_text(json.dumps({"machine": self.machine, "rows": self.rows}, indent=1) + "\n")

    def _show(self, row: Row) -> None:
        target = f"≤ {_number(row.target)}" if (self.targets or row.everywhere) and row.target is not None else ""
        floor = _number(row.floor) if row.floor is not None else ""
        above = f"{row.value / row.floor:.1f}" if row.value is not None and row.floor else ""
        value = "–" if row.value is None else f"{_number(row.value)} {row.unit}"
        peers = ", ".join(_peer(name, figure, row.value) for name, figure in row.peers.items())
        print((_line((row.name, value, target, floor, above)) + "  " + peers).rstrip(), flush=True)
        for note in row.notes:
            print(f"    {note}", flush=True)


def _line(cells: Sequence[str]) -> str:
    first, *rest = (f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS, strict=True))
    return first + "".join(f"{cell.strip():>{width}}" for cell, width in zip(rest, _WIDTHS[1:], strict=True))


def _peer(name: str, figure: float, value: float | None) -> str:
    return f"{name} {_number(figure)}" + (f" ({figure / value:.1f} ×)" if value else "")


def _number(value: float) -> str:
    """A number with four significant digits, without an exponent for common sizes.

    >>> _number(0.39421), _number(12345.6)
    ('0.3942', '12,346')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
