"""Progress of ``songrank paper``: a bar with the finished cells and the time left, lines, or JSON."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column

from songrank.analysis.report.formatting import duration
from songrank.cli.printing import echo
from songrank_paper.cells import Observer
from songrank_paper.experiment import Cell, Experiment


class PaperView(Observer):
    """Shows the number of finished cells, the running cells and the time left."""

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        self.quiet, self.as_json = quiet, as_json
        self.name = ""
        """Name of the result."""
        self._done = self._total = self._fresh = 0
        self._running: list[str] = []
        self._begun: float | None = None
        self._bar: Progress | None = None
        self._task = TaskID(0)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the progress while the work runs."""
        console = Console(stderr=True)
        if self.quiet or self.as_json or not console.is_terminal:
            yield
            return
        with _progress(console) as self._bar:
            try:
                self._task = self._bar.add_task("", total=None, words="")
                yield
            finally:
                self._bar = None

    def known(self, done: int, total: int) -> None:
        """Update the number of finished cells and of known cells."""
        self._done, self._total = done, total
        self._begun = self._begun or time.monotonic()
        self._draw()

    def begun(self, cell: Cell) -> None:
        """Show that a cell started."""
        self._running.append(cell.name)
        self._draw()

    def finished(self, cell: Cell, seconds: float) -> None:
        """Show that a cell is done."""
        self._done += 1
        self._running.remove(cell.name)
        self._fresh += 1
        self._draw()
        if self.as_json:
            figures = {"result": self.name, "cell": cell.name, "key": cell.key, "seconds": seconds}
            echo(json.dumps({**figures, "done": self._done, "known": self._total}))
        elif self._bar is None and not self.quiet:
            echo(f"{self.told()}{self._left()}: {cell.name}, {seconds:.1f} s", err=True)

    def told(self) -> str:
        """The number of finished cells in words."""
        return f"{self.name}: {self._done:,} of {self._total:,} cells done"

    def note(self, message: str) -> None:
        """Show a message on work outside of cells."""
        if self._bar is not None:
            self._bar.update(self._task, description=self.name, words=message)
        elif not self.quiet and not self.as_json:
            echo(f"{self.name}: {message}", err=True)

    def warn(self, message: str) -> None:
        """Print a warning."""
        echo(f"warning: {message}", err=True)

    def made(self, experiment: Experiment, remarks: Sequence[str]) -> None:
        """Print a finished result."""
        if self.quiet or self.as_json:
            return
        echo(f"{experiment.name}: {experiment.title}")
        for remark in remarks:
            echo(f"  {remark}")

    def _left(self) -> str:
        missing = self._total - self._done
        if not self._fresh or not missing or self._begun is None:
            return ""
        return f", about {duration((time.monotonic() - self._begun) / self._fresh * missing)} left"

    def _draw(self) -> None:
        if self._bar is not None:
            words = f"{self._done:,} of {self._total:,} cells{self._left()}  {'; '.join(self._running)}"
            self._bar.update(self._task, description=self.name, completed=self._done, total=self._total, words=words)


def _progress(console: Console) -> Progress:
    words = TextColumn("{task.fields[words]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    return Progress(TextColumn("{task.description}"), BarColumn(bar_width=20), words, console=console, transient=True)
