"""``songrank tune``: tune the options of a recipe on validation; a study can be stopped and resumed at any time."""

import json
import shlex
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from songrank.cli.printing import TextTable, echo, wide_console
from songrank.cli.signals import stoppable
from songrank.cli.training_view import View, total_steps
from songrank.core.text import counted, printable

if TYPE_CHECKING:
    from songrank.analysis.tuning import Study, Trial


def tune(
    recipe: Annotated[str, typer.Argument(help="Recipe: a YAML file, or a name that `songrank recipes` lists.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="STUDY", help="Directory of the study.")],
    changes: Annotated[
        list[str] | None, typer.Argument(help="Changed recipe keys, e.g. loss=k-song data=data/mine.")
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=...", help="Key and its search space, e.g. loss.gamma=0.1..1.0; repeatable."),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Total number of trials.")] = 20,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per trial and one at the end.")] = False,
) -> None:
    """Tune the options of a recipe on the validation split; the test split is not used.

    Define the search space with --search, once per key:

        --search loss.gamma=0.1..1.0                          range of numbers
        --search fine_tuning.learning_rate=1e-4..1e-2:log     logarithmic range
        --search batch.relevant=5..20                         range of integers
        --search loss.rank_offset=none,4,16,64                choices

    By default, the search space is the learning rate (a decade around the recipe's value, log scale) and those of these
    options that the loss has: gamma and t of gBCE (0.1 to 1), margin, temperature and sigma (a quarter to four times
    the recipe's value, log scale), rank_offset (null,4,16,64,256) and k of K-SONG (a quarter to twice the recipe's
    value).

    Each trial is a run, for example STUDY/trial-0007, with the seed and the full schedule of the recipe. The first
    trial uses the values of the recipe if they are inside the search space. Trials are ranked by the validation metric
    of the recipe, over complete lists, at the best checkpoint. A trial fails if its loss is NaN or infinite, or if it
    runs out of memory. STUDY/best.yaml is the best recipe so far: `songrank train STUDY/best.yaml`.

    Ctrl-C or SIGTERM stops the study at any time; the same command resumes it, also within a trial, until there are
    --trials trials. On a CPU with the same number of threads, a resumed study finds the same results.

    Exit codes: 0 success; 1 all trials failed; 2 invalid input; 130 or 143 stopped, can be resumed.
    """
    from songrank.analysis.tuning import Study
    from songrank.training.trainer.loop import DivergedError

    view = _View(trials, quiet=quiet, as_json=as_json)
    more: dict[str, Any] = {"observe": view.observe, "tick": view.tick, "warn": view.warn}
    study = Study(recipe, changes or [], search or [], output, **more)
    with stoppable(study.stop) as received, view.shown(study):
        last = None
        for trial in study.search(trials):
            view.finished(trial)
            last = trial.error
    done = len(study.trials())
    if not study.finished:
        echo(f"stopped after {done:,} of {counted(trials, 'trials')}; run the same command to resume", err=True)
        sys.exit(128 + received[0])  # typer reports its own Exit(130) as unsaved work
    if not study.best():
        why = f"; last error: {last}" if last else "; search lower learning rates"
        raise DivergedError(f"{study.place}: all trials failed ({done:,}){why}")
    if as_json:
        echo(json.dumps(_summary(study)))
    elif not quiet:
        _print_summary(study)


class _View(View):
    """Receives each step, epoch and trial, and shows the requested output."""

    def __init__(self, trials: int, *, quiet: bool, as_json: bool) -> None:
        super().__init__(quiet=quiet, as_json=as_json)
        self.trials, self._done = trials, 0
        self._study: Any = None

    def shown(self, study: "Study") -> AbstractContextManager[None]:
        """Show the progress of a study."""
        self._study, self._done = study, len(study.trials())
        # all trials have the same length, so the speed of the last ten minutes gives a stable estimate
        return self._shown(self._counted(), self.trials, done=self._done, speed_estimate_period=600)

    def _step_size(self) -> float:
        return 1 / (total_steps(self._study.run) or 1)

    def observe(self, line: Mapping[str, Any]) -> None:
        """Show an epoch of a trial."""
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done + line["step"] * self._step_size())

    def finished(self, trial: "Trial") -> None:
        """Show a finished trial."""
        self._done += 1
        best = self._study.best()
        if self.as_json:
            echo(json.dumps({**_as_dict(trial), "best": best[0].value if best else None}))
            return
        figure = f"failed ({trial.error})"
        if trial.value is not None:
            figure = f"validation {self._study.metric} {trial.value:.4f}"
        record = f", best {best[0].value:.4f} (trial {best[0].number})" if best else ""
        words = " ".join(f"{key}={_word(value)}" for key, value in trial.parameters.items())
        line = f"trial {trial.number}: {figure}{record}: {words}"
        if self._bar is not None:
            self._bar.console.print(printable(line), highlight=False, markup=False, soft_wrap=True)
            figures = f"best {best[0].value:.4f}" if best else ""
            self._bar.update(self._task, completed=self._done, description=self._counted(), figures=figures)
        elif not self.quiet:
            echo(line, err=True)

    def _counted(self) -> str:
        return f"trial {min(self._done + 1, self.trials)}/{self.trials}"


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value)


def _as_dict(trial: "Trial") -> dict[str, Any]:
    error = {"error": trial.error} if trial.error else {}
    return {"trial": trial.number, "value": trial.value, "parameters": trial.parameters, **error}


def _summary(study: "Study") -> dict[str, Any]:
    every = study.trials()
    return {
        "study": str(study.place),
        "metric": f"validation {study.metric}",
        "trials": len(every),
        "failed": sum(trial.value is None for trial in every),
        "best": _as_dict(study.best()[0]),
        "recipe": str(study.place / "best.yaml"),
    }


def _print_summary(study: "Study") -> None:
    every, best = study.trials(), study.best(5)
    table = TextTable("trial", f"validation {study.metric}", *best[0].parameters, box=None, pad_edge=False)
    for trial in best:
        cells = [str(trial.number), f"{trial.value:.4f}", *map(_word, trial.parameters.values())]
        table.add_row(*map(Text, cells))
    wide_console().print(table)
    failed = sum(trial.value is None for trial in every)
    recipe = shlex.quote(str(study.place / "best.yaml"))
    number = counted(len(every), "trials")
    echo(f"{number} with seed {study.seed}" + (f", {failed:,} failed" if failed else ""))
    advice = "train the recipe with new seeds, and evaluate on test once"
    echo(f"the best validation value of {number} is optimistic: {advice}")
    echo(f"next: songrank train {recipe} seed={study.seed + 1}")
