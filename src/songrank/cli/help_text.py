"""Help of commands: paragraphs fill the width of the terminal, and panels list what depends on the code."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose help is reflowed; subclasses add panels."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.help = reflowed(self.help or "")

    def panels(self, ctx: Any) -> Iterable[tuple[str, Sequence[Sequence[str]]]]:
        """Titles and rows of the panels below the options."""
        return ()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; examples are coloured, which also keeps typer from removing their indentation."""
        text = self.help or ""
        self.help = re.sub(r"^ .*", lambda line: f"[cyan]{escape(line[0])}[/cyan]", text, flags=re.MULTILINE)
        super().format_help(ctx, formatter)
        self.help = text
        for title, rows in self.panels(ctx):
            table = Table.grid(padding=(0, 2), expand=True)
            for column in range(len(rows[0])):
                last = column == len(rows[0]) - 1
                table.add_column(style="bold cyan" if column == 0 else "", ratio=1 if last else None)
            for row in rows:
                table.add_row(*map(Text, row))
            Console().print(Panel(table, title=title, title_align="left", border_style="dim"))


def reflowed(text: str) -> str:
    """The text with each paragraph as one line; indented paragraphs stay as they are."""
    parts = text.split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else part.replace("\n", " ") for part in parts)
