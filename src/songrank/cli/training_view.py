"""What a person sees of a training run: a bar with rate, objective and validation; or lines; or JSON; and curves."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from songrank.cli.signals import stoppable
from songrank.io.json_files import plain
from songrank.metrics import Evaluation

if TYPE_CHECKING:
    from songrank.training.run import Run


class View:
    """Receives steps and warnings of a long job; a bar shows how far it is where there is a terminal for it."""

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        self.quiet, self.as_json = quiet, as_json
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._steps = 0

    @contextmanager
    def _shown(self, task: str, total: int, *columns: ProgressColumn, done: int = 0, **options: Any) -> Iterator[None]:
        """Show a bar with these columns, and figures that are told to it, while the job lasts."""
        console = Console(stderr=True)
        if self.quiet or self.as_json or not console.is_terminal:
            yield
            return
        first, figures = TextColumn("{task.description}"), TextColumn("{task.fields[figures]}")
        middle = BarColumn(bar_width=20), *columns, figures
        with Progress(first, *middle, TimeRemainingColumn(), console=console, transient=True, **options) as self._bar:
            try:
                self._task = self._bar.add_task(task, total=total, completed=done, figures="")
                yield
            finally:
                self._bar = None

    def tick(self) -> None:
        """One more step."""
        self._steps += 1
        if self._bar is not None and self._steps % 4 == 0:
            self._bar.advance(self._task, 4 * self._step_size())

    def _step_size(self) -> float:
        """How much of the bar's total a step is."""
        return 1

    def warn(self, message: str) -> None:
        """Something that a person should know."""
        typer.echo(f"warning: {message}", err=True)


class TrainingView(View):
    """Receives each step and each epoch of a run, and shows what was asked for."""

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        super().__init__(quiet=quiet, as_json=as_json)
        self._validation = ""
        self._epochs: dict[str, int] = {}

    def finish(self, run: "Run", go_on: str) -> None:
        """Bring a run to its end; a signal saves its state, says how to go on, and ends the command."""
        self._epochs = {stage.name: stage.epochs for stage in run.trainer.stages}
        with stoppable(run.trainer.stop) as received, self._shown("starting", total_steps(run), _Rate()):
            finished = run.finish()
        if not finished:
            typer.echo(f"stopped after step {run.trainer.at.step:,}; `{go_on}` goes on", err=True)
            sys.exit(128 + received[0])

    def observe(self, line: Mapping[str, Any]) -> None:
        """One more epoch."""
        if self.as_json:
            typer.echo(json.dumps(plain(line)))
            return
        watched = [f"{name} {value:.4f}" for name, value in line.items() if name.startswith("validation ")]
        self._validation = watched[-1] if watched else self._validation
        stage, objective = line["stage"], f"objective {line['objective']:.4f}"
        at = f"{stage} {line['epoch']}" + (f" of {self._epochs[stage]}" if stage in self._epochs else "")
        if self._bar is not None:
            figures = f"{objective}  {self._validation}"
            self._bar.update(self._task, completed=line["step"], description=at, figures=figures)
        elif watched and not self.quiet:
            typer.echo(f"{at}: {objective}, {self._validation}", err=True)


def total_steps(run: "Run") -> int:
    """Steps of all epochs of a run."""
    return sum(stage.epochs * len(stage.sampler) for stage in run.trainer.stages)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.{0 if task.speed >= 10 else 1}f} steps/s" if task.speed else "")


def print_results(place: Path, results: Mapping[str, Evaluation]) -> None:
    """The final figures as a table, and the policies they were computed under."""
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
