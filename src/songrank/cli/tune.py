"""``songrank tune``: a search for the options of a recipe on validation, stopped and gone on with at any time."""

import json
import shlex
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from songrank.cli.signals import stoppable
from songrank.cli.training_view import View, total_steps

if TYPE_CHECKING:
    from songrank.analysis.tuning import Study, Trial


def tune(
    recipe: Annotated[str, typer.Argument(help="A recipe: a YAML file, or the name of one of `songrank recipes`.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="STUDY", help="Folder of the study.")],
    changes: Annotated[
        list[str] | None, typer.Argument(help="Changes to it: loss=k-song fine_tuning.epochs=60 data=FOLDER")
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=...", help="What to search, e.g. loss.gamma=0.1..1.0; may be repeated."),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="How many trials there are to be in all.")] = 20,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a trial and one at the end.")] = False,
) -> None:
    """Search for the options of a recipe on validation; test is never touched.

    What is searched is said with --search, once for each key of the recipe:

        --search loss.gamma=0.1..1.0                   numbers between two ends
        --search fine_tuning.learning_rate=1e-4..1e-2:log      on a log scale
        --search batch.relevant=5..20         whole numbers, as both ends are
        --search loss.rank_offset=none,4,16,64                        choices

    Without it: the learning rate (a decade around the recipe's own, :log),
    and of these what the loss has: gamma (0.1 to 1), margin, temperature and
    sigma (a quarter to four times their own, :log), rank_offset
    (null,4,16,64,256), and K-SONG's k (a quarter to twice its own).

    Each trial is a run of its own, STUDY/trial-0007, with the recipe's seed
    and its whole schedule; the first tries the recipe's own values if they
    are within the search. It counts by the recipe's validation metric, over
    whole lists, of the state that was kept. It has failed if its loss is no
    number any more, or if memory was not enough. STUDY/best.yaml is the best
    recipe so far: `songrank train STUDY/best.yaml`.

    Stop it with Ctrl-C or any signal at any time: the same command goes on,
    in the midst of a trial too, until there are --trials in all. On a CPU,
    with as many threads, it then finds what it would have found.

    Exit code 0: done; 1: all trials failed; 2: something that was given is
    wrong; 130, 143: stopped, to be gone on with.
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
        typer.echo(f"stopped after {done:,} of {trials:,} trials; the same command goes on", err=True)
        sys.exit(128 + received[0])  # typer's own Exit with 130 reads as an interruption that saved nothing
    if not study.best():
        why = f", the last one: {last}" if last else "; search lower learning rates"
        raise DivergedError(f"{study.place}: all {done:,} trials failed{why}")
    if as_json:
        typer.echo(json.dumps(_summary(study)))
    elif not quiet:
        _print_summary(study)


class _View(View):
    """Receives each step, epoch and trial, and shows what was asked for."""

    def __init__(self, trials: int, *, quiet: bool, as_json: bool) -> None:
        super().__init__(quiet=quiet, as_json=as_json)
        self.trials, self._done = trials, 0
        self._study: Any = None

    def shown(self, study: "Study") -> AbstractContextManager[None]:
        """Show a study while it lasts."""
        self._study, self._done = study, len(study.trials())
        # each trial is of one length, so the speed of the last ten minutes tells more than that of the last half
        return self._shown(self._counted(), self.trials, done=self._done, speed_estimate_period=600)

    def _step_size(self) -> float:
        return 1 / (total_steps(self._study.run) or 1)

    def observe(self, line: Mapping[str, Any]) -> None:
        """One more epoch of a trial."""
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done + line["step"] * self._step_size())

    def finished(self, trial: "Trial") -> None:
        """One more trial."""
        self._done += 1
        best = self._study.best()
        if self.as_json:
            typer.echo(json.dumps({**_as_dict(trial), "best": best[0].value if best else None}))
            return
        figure = (
            f"validation {self._study.metric} {trial.value:.4f}"
            if trial.value is not None
            else f"failed ({trial.error})"
        )
        record = f", best {best[0].value:.4f} (trial {best[0].number})" if best else ""
        told = " ".join(f"{key}={_word(value)}" for key, value in trial.parameters.items())
        line = f"trial {trial.number}: {figure}{record}: {told}"
        if self._bar is not None:
            self._bar.console.print(line, highlight=False, markup=False, soft_wrap=True)
            figures = f"best {best[0].value:.4f}" if best else ""
            self._bar.update(self._task, completed=self._done, description=self._counted(), figures=figures)
        elif not self.quiet:
            typer.echo(line, err=True)

    def _counted(self) -> str:
        return f"trial {min(self._done + 1, self.trials)} of {self.trials}"


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
    table = Table("trial", f"validation {study.metric}", *best[0].parameters, box=None, pad_edge=False)
    for trial in best:
        cells = [str(trial.number), f"{trial.value:.4f}", *map(_word, trial.parameters.values())]
        table.add_row(*map(Text, cells))
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = 10_000  # a file has no width to keep to
    console.print(table)
    failed = sum(trial.value is None for trial in every)
    recipe = shlex.quote(str(study.place / "best.yaml"))
    console.print(f"{len(every):,} trials with seed {study.seed}" + (f", {failed:,} failed" if failed else ""))
    console.print(
        f"the figure of the best of {len(every):,} on the same validation queries flatters: "
        "train fresh seeds, and look at test once"
    )
    console.print(f"train with it: songrank train {recipe} seed={study.seed + 1}")
