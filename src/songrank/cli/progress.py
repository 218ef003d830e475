"""Progress bars, shown only on a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from songrank.core.text import printable
from songrank.io.source import Progress as Report


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Report | None]:
    """A function that long jobs call with a description, the completed amount and the total."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    text = TextColumn("{task.description}", markup=False)
    columns = SpinnerColumn(), text, BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                for earlier in tasks.values():
                    bar.remove_task(earlier)
                tasks.clear()
                tasks[what] = bar.add_task(printable(what), total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield report
