"""Output of training: one live line on a terminal, few lines in a file, or JSON; then the final metrics."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from songrank.cli.printing import TextTable, echo, unit_of, wide_console
from songrank.cli.signals import stoppable
from songrank.io.json_files import plain

if TYPE_CHECKING:
    from songrank.metrics import Evaluation
    from songrank.training.run import Run


class View:
    """Receives steps and warnings of a long job, and shows its progress on a terminal."""

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        self.quiet, self.as_json = quiet, as_json
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._steps = 0

    @contextmanager
    def _shown(self, task: str, total: int, *columns: ProgressColumn, done: int = 0, **options: Any) -> Iterator[None]:
        """Show one live line with a bar, these columns, the latest figures and the time left, while the job runs."""
        console = Console(stderr=True)
        if self.quiet or self.as_json or not console.is_terminal:
            yield
            return
        first, figures = TextColumn("{task.description}"), TextColumn("{task.fields[figures]}", markup=False)
        middle = BarColumn(bar_width=max(4, min(20, console.width - 80))), *columns, figures
        last = TimeRemainingColumn(), TextColumn("left")
        with Progress(first, *middle, *last, console=console, transient=True, **options) as self._bar:
            try:
                self._task = self._bar.add_task(task, total=total, completed=done, figures="")
                yield
            finally:
                self._bar = None

    def tick(self) -> None:
        """Count a step."""
        self._steps += 1
        if self._bar is not None and self._steps % 4 == 0:
            self._bar.advance(self._task, 4 * self._step_size())

    def _step_size(self) -> float:
        """The part of the total that a step is."""
        return 1

    def warn(self, message: str) -> None:
        """Print a warning."""
        echo(f"warning: {message}", err=True)


class TrainingView(View):
    """Receives each step and each epoch of a run, and shows the requested output."""

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        super().__init__(quiet=quiet, as_json=as_json)
        self._validation = ""
        self._epochs: dict[str, int] = {}
        self._printed: dict[str, int] = {}
        self._evaluates = True

    def stages(self, epochs: dict[str, int], *, evaluates: bool) -> None:
        """Set the number of epochs of each stage, and whether there is validation."""
        self._epochs, self._evaluates = epochs, evaluates

    def finish(self, run: "Run", go_on: str) -> None:
        """Finish a run; on a signal, save a checkpoint, print the command that resumes it, and exit."""
        epochs = {stage.name: stage.epochs for stage in run.trainer.stages}
        self.stages(epochs, evaluates=run.trainer.evaluate_every > 0)
        with (
            stoppable(run.trainer.stop) as received,
            self._shown("starting", total_steps(run), _Rate(table_column=Column(no_wrap=True))),
        ):
            finished = run.finish()
        if not finished:
            # Of several processes, a signal may reach only some.
            number = int(run.processes.largest(received[0] if received else 0))
            if run.processes.is_first:
                echo(f"stopped after step {run.trainer.at.step:,}; resume with `{go_on}`", err=True)
            sys.exit(128 + number)

    def observe(self, line: Mapping[str, Any]) -> None:
        """Show the figures of an epoch."""
        if self.as_json:
            echo(json.dumps(plain(line)))
            return
        watched = [f"{name} {value:.4f}" for name, value in line.items() if name.startswith("validation ")]
        self._validation = watched[-1] if watched else self._validation
        stage, epoch, objective = line["stage"], line["epoch"], f"objective {line['objective']:.4f}"
        epochs = self._epochs.get(stage, epoch)
        if self._bar is not None:
            what, figures = f"{stage} {epoch}/{epochs}", f"{objective}  {self._validation.removeprefix('validation ')}"
            self._bar.update(self._task, completed=line["step"], description=what, figures=figures)
        elif not self.quiet and (watched or not self._evaluates) and self._is_due(stage, epoch, epochs):
            echo(", ".join([f"{stage} {epoch}/{epochs}: {objective}", *watched[-1:]]), err=True)

    def _is_due(self, stage: str, epoch: int, epochs: int) -> bool:
        """Whether an epoch is printed where there is no terminal: the last one, and about ten more per stage."""
        due = epoch == epochs or 10 * epoch // epochs > self._printed.get(stage, -1)
        if due:
            self._printed[stage] = 10 * epoch // epochs
        return due


def total_steps(run: "Run") -> int:
    """The number of steps of a run."""
    return sum(stage.epochs * len(stage.sampler) for stage in run.trainer.stages)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.{0 if task.speed >= 10 else 1}f} steps/s" if task.speed else "")


def print_results(place: Path, results: Mapping[str, "Evaluation"]) -> None:
    """Print the final metrics as a table, and the policies of the evaluation."""
    if results:
        names = list(next(iter(results.values())).values)
        table = TextTable("", *names, box=None, pad_edge=False)
        for split, found in results.items():
            table.add_row(split, *(f"{found.values[name]:.4f}" for name in names))
        wide_console().print(table)
        for split, found in results.items():
            echo(f"{split}: {found.describe(unit_of(place)).splitlines()[-1]}")
    echo(place)
