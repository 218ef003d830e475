"""Output of an automatic choice: one line per decision, and on a terminal a bar of the budget."""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from songrank.cli.printing import echo
from songrank.cli.signals import stoppable
from songrank.cli.training_view import View
from songrank.io.json_files import plain

if TYPE_CHECKING:
    from songrank.analysis.auto import AutoRun


class AutoView(View):
    """Receives the epochs and decisions of an automatic choice, and shows the requested output."""

    _run: "AutoRun"

    def finish(self, run: "AutoRun", go_on: str) -> None:
        """Finish a run; on a signal, save a checkpoint, print the command that resumes it, and exit."""
        self._run = run
        names = ", ".join(part.name for part in run.parts)
        self.say(f"budget {run.budget:.0f} s of training, in this order: {names}")
        with stoppable(run.stop) as received, self._shown("starting", round(run.budget), done=round(run.spent)):
            finished = run.finish()
        if not finished:
            so_far = "" if run.best is None else "; the model so far can be used"
            echo(f"stopped after {run.spent:.0f} s{so_far}; resume with `{go_on}`", err=True)
            sys.exit(128 + received[0])

    def observe(self, line: Mapping[str, Any]) -> None:
        """Show the figures of an epoch."""
        if self.as_json:
            echo(json.dumps(plain(line)))
        elif self._bar is not None:
            watched = [f"{name} {value:.4f}" for name, value in line.items() if name.startswith("validation ")]
            figures = watched[-1].removeprefix("validation ") if watched else ""
            what = f"{line['part']}, epoch {line['epoch']}"
            self._bar.update(self._task, completed=self._run.spent, description=what, figures=figures)

    def tick(self) -> None:
        """Steps are not shown: the bar counts seconds."""

    def say(self, message: str) -> None:
        """Print a decision."""
        if not self.quiet and not self.as_json:
            echo(message, err=True)
