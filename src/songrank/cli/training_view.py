"""What a person sees of a training run: a bar with rate, objective and validation; or lines; or JSON; and curves."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from songrank.cli.signals import stoppable
from songrank.io.json_files import plain
from songrank.metrics import Evaluation

if TYPE_CHECKING:
    from songrank.training.run import Run


class TrainingView:
    """Receives each step and each epoch of a run, and shows what was asked for."""

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        self.quiet, self.as_json = quiet, as_json
        self._bar: Any = None
        self._task: Any = None
        self._steps = 0
        self._writer: Any = None
        self._validation = ""
        self._epochs: dict[str, int] = {}

    @contextmanager
    def shown(self, run: "Run") -> Iterator[None]:
        """Show a run while it lasts."""
        from rich.console import Console

        self._writer = _tensorboard(run.directory.tensorboard)
        console = Console(stderr=True)
        self._epochs = {stage.name: stage.epochs for stage in run.trainer.stages}
        try:
            if self.quiet or self.as_json or not console.is_terminal:
                yield
                return
            with _progress(console) as self._bar:
                total = sum(stage.epochs * len(stage.sampler) for stage in run.trainer.stages)
                self._task = self._bar.add_task("starting", total=total, figures="")
                yield
        finally:
            self._bar = None
            if self._writer is not None:
                self._writer.close()

    def finish(self, run: "Run", go_on: str) -> None:
        """Bring a run to its end; a signal saves its state, says how to go on, and ends the command."""
        with stoppable(run.trainer.stop) as received, self.shown(run):
            finished = run.finish()
        if not finished:
            typer.echo(f"stopped after step {run.trainer.at.step:,}; `{go_on}` goes on", err=True)
            sys.exit(128 + received[0])

    def tick(self) -> None:
        """One more step."""
        self._steps += 1
        if self._bar is not None and self._steps % 4 == 0:
            self._bar.advance(self._task, 4)

    def observe(self, line: Mapping[str, Any]) -> None:
        """One more epoch."""
        watched = {name: value for name, value in line.items() if name.startswith("validation ")}
        if self._writer is not None:
            for name in ("loss", "objective", "learning_rate", *watched):
                self._writer.add_scalar(name.replace(" ", "_").replace("@", "_at_"), line[name], line["step"])
        if self.as_json:
            typer.echo(json.dumps(plain(line)))
            return
        for name, value in watched.items():
            self._validation = f"{name} {value:.4f}"
        if self._bar is not None:
            figures = f"objective {line['objective']:.4f}  {self._validation}"
            self._bar.update(
                self._task,
                completed=line["step"],
                description=f"{line['stage']} {line['epoch']}{self._of(line['stage'])}",
                figures=figures,
            )
        elif watched and not self.quiet:
            at = f"{line['stage']} {line['epoch']}{self._of(line['stage'])}"
            typer.echo(f"{at}: objective {line['objective']:.4f}, {self._validation}", err=True)

    def _of(self, stage: str) -> str:
        return f" of {self._epochs[stage]}" if stage in self._epochs else ""

    def warn(self, message: str) -> None:
        """Something that a person should know."""
        typer.echo(f"warning: {message}", err=True)


def _progress(console: Any) -> Any:
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.{0 if task.speed >= 10 else 1}f} steps/s" if task.speed else "")

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        Rate(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


def _tensorboard(folder: Path) -> Any:
    """A writer of curves, where tensorboard is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    try:  # its thread would fail later, and aloud
        folder.mkdir(parents=True, exist_ok=True)
        return SummaryWriter(str(folder)) if os.access(folder, os.W_OK) else None
    except OSError:  # curves are a comfort: what matters is written elsewhere, and complains by itself
        return None


def print_results(place: Path, results: Mapping[str, Evaluation]) -> None:
    """The final figures as a table, and the policies they were computed under."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, soft_wrap=True)
    if results:
        names = list(next(iter(results.values())).values)
        table = Table("", *names, box=None, pad_edge=False)
        for split, found in results.items():
            table.add_row(split, *(f"{found.values[name]:.4f}" for name in names))
        console.print(table)
        for split, found in results.items():
            console.print(f"{split}: {str(found).splitlines()[-1]}")
    console.print(str(place))
