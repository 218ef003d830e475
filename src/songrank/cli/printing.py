"""What several commands print alike."""

from pathlib import Path

from rich.console import Console

from songrank.core.errors import DataError
from songrank.core.text import UNITS
from songrank.io.json_files import read_json


def wide_console() -> Console:
    """Standard output for tables: as wide as the terminal; in a file or pipe no line is broken."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 10_000
    return console


def unit_of(run: Path) -> str:
    """What the queries of a run are called: users, texts or queries."""
    try:
        return UNITS.get(str(read_json(run / "model.json").get("task")), "queries")
    except DataError:  # a run of another tool has no such file
        return "queries"


def printable(text: str) -> str:
    """The text with control characters escaped, so that it cannot steer a terminal or break a row."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
