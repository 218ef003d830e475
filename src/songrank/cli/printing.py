"""What several commands print alike."""

from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from songrank.core.errors import DataError
from songrank.core.text import UNITS, printable
from songrank.io.json_files import read_json


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text that may contain names of users, files and columns: they cannot steer the terminal."""
    typer.echo(printable(text, keep="\n\t"), err=err, nl=nl)


class TextTable(Table):
    """A table of plain text: cells contain no markup, and cannot steer the terminal."""

    def add_column(self, header: object = "", *more: Any, **options: Any) -> None:
        """Add a column with this heading."""
        super().add_column(_text(header), *more, **options)

    def add_row(self, *cells: object, **options: Any) -> None:
        """Add a row of these cells."""
        super().add_row(*map(_text, cells), **options)


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


def _text(cell: object) -> Text:
    """A cell; the style of a text remains."""
    style = cell.style if isinstance(cell, Text) else ""
    return Text(printable(cell, keep="\n"), style)
