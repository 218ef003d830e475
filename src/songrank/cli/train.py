"""``songrank train``: train the model of a recipe; a run can be stopped and resumed at any time."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from songrank.cli.auto_view import AutoView
from songrank.cli.help_text import Command
from songrank.cli.printing import echo
from songrank.cli.training_view import TrainingView, View, print_results
from songrank.core.errors import UserError
from songrank.core.launch import is_first

if TYPE_CHECKING:
    from songrank.training.config.recipe import Recipe

_MAIN_KEYS = (
    *("data", "loss", "model", "seed", "device", "batch.queries", "batch.relevant", "batch.irrelevant"),
    *("warm_up.epochs", "fine_tuning.epochs", "fine_tuning.learning_rate", "validation.metric"),
)
_DESCRIPTIONS = {
    "loss": "Loss of the fine-tuning; its options are loss.gamma and so on.",
    "model": "Model; its options are model.dim and so on.",
    "seed": "Random seed.",
}


class TrainCommand(Command):
    """The command with panels of the losses, models and main keys of recipes."""

    def panels(self, ctx: Any) -> Iterable[tuple[str, Sequence[Sequence[str]]]]:
        """Main keys of a recipe; losses and models by name."""
        from songrank.losses.registry import LOSSES
        from songrank.models.registry import MODELS

        yield "Recipe keys (all: docs/reference/recipe-keys.md)", [_described(key) for key in _MAIN_KEYS]
        yield "Losses and models", [("loss", ", ".join(LOSSES)), ("model", ", ".join(MODELS))]


def _described(key: str) -> tuple[str, str, str]:
    """A key of recipes, its default and its description."""
    from songrank.training.config.recipe import Recipe

    *sections, name = key.split(".")
    section: Any = Recipe
    for word in sections:
        section = section.model_fields[word].annotation
    field = section.model_fields[name]
    default = {"loss": "song"}.get(key, "required" if field.is_required() else field.default)
    return key, str(default), field.description or _DESCRIPTIONS.get(key, "")


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="Recipe: a YAML file, or a name that `songrank recipes` lists.")
    ] = None,
    changes: Annotated[
        list[str] | None, typer.Argument(help="Changed recipe keys, e.g. loss=k-song loss.gamma=0.3 data=data/mine.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Run directory; runs/RECIPE-LOSS-SEED by default.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Resume the run in this directory; takes no recipe.")] = None,
    data: Annotated[Path | None, typer.Option(help="With --resume: current path of the data set.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an existing run.")] = False,
    speed: Annotated[str, typer.Option(help="auto, or plain: no CUDA graph, kernels, compiler or packing.")] = "auto",
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per epoch and one at the end.")] = False,
) -> None:
    """Train the model of a recipe, and evaluate it on complete lists or all unseen items.

    A recipe names a prepared data set (`songrank data prepare`), a model, a loss and a schedule. Any key can be
    changed on the command line:

        songrank train movielens-1m
        songrank train movielens-1m loss=lambdarank seed=1 data=data/mine
        songrank train mine.yaml fine_tuning.learning_rate=1e-3 -o runs/faster

    Ctrl-C or SIGTERM saves a checkpoint, and `songrank train --resume RUN` continues exactly from there. The
    checkpoint with the best validation metric is kept.

    Several processes, as torchrun starts them, train together: each has a range of the queries. The first one writes
    the run directory, which all must see. A run can be resumed with any number of processes:

        torchrun --nproc-per-node=2 -m songrank train movielens-1m

    After a divergence, resume from the last checkpoint with a lower learning rate; the change is recorded in run.json:

        songrank train --resume runs/faster fine_tuning.learning_rate=3e-4

    Exit codes: 0 success; 1 the loss is NaN or infinite; 2 invalid input; 130 or 143 stopped, can be resumed.
    """
    if speed not in ("auto", "plain"):
        raise UserError(f"speed is {speed!r}; expected auto or plain")
    from songrank.core.processes import joined
    from songrank.training.run import Run, change_recipe
    from songrank.training.trainer.loop import DivergedError

    view = View(quiet=quiet, as_json=as_json)
    later: list[str] = []
    if resume is not None and recipe is not None and "=" in recipe:
        later = [recipe, *(changes or [])]
        recipe = None
    chosen: Recipe | UserError | None
    try:
        resume, chosen = _chosen(recipe, changes or [], output, resume, data, view, overwrite=overwrite)
    except UserError as error:
        chosen = error
    if chosen is None:
        return
    with joined("auto" if isinstance(chosen, UserError) else chosen.device) as processes:
        with processes.agreed():
            if isinstance(chosen, UserError):
                raise chosen
            if chosen.auto is not None and processes.world > 1:
                raise UserError(f"recipe auto runs in one process, not {processes.world}; choose one of its recipes")
        quiet, as_json = quiet or not processes.is_first, as_json and processes.is_first
        kind, view, more = _runner(chosen, speed, quiet=quiet, as_json=as_json)
        if processes.world > 1:
            more["processes"] = processes
        if not processes.is_first:
            more["warn"] = lambda message: None
        if later and resume is not None:
            with processes.agreed():
                if processes.is_first:
                    change_recipe(resume, later, data=data)
        if resume is not None:
            run = kind.resume(resume, data=data, **more)
        else:
            place = output or default_place(str(recipe), chosen)
            run = kind.begin(chosen, place, overwrite=overwrite, **more)
        moved = "" if data is None else f" --data {data}"
        again = f"songrank train --resume {run.directory.path}{moved}"
        try:
            view.finish(run, again)
        except DivergedError as error:
            if not isinstance(run, Run) or run.recipe.closed_form:
                raise
            raise DivergedError(f"{error}, for example with `{again} {run.lower_rate()}`") from None
        if processes.is_first:
            _report(run, view)


def _chosen(
    recipe: str | None,
    changes: Sequence[str],
    output: Path | None,
    resume: Path | None,
    data: Path | None,
    view: View,
    *,
    overwrite: bool,
) -> "tuple[Path | None, Recipe | None]":
    """The run to resume, if any, and its recipe or that of a new run; no recipe if the run is finished."""
    from songrank.training.config.recipe_files import load_recipe
    from songrank.training.run_directory import RunDirectory

    chosen: Recipe | None = None
    if resume is not None:
        extra = recipe or ("-o" if output is not None else "--overwrite" if overwrite else None)
        if extra is not None:
            raise UserError(f"--resume uses the recipe and the directory of {resume}; leave out {extra}")
    elif data is not None:
        raise UserError(f"--data needs --resume; for a new run, pass data={data}")
    elif recipe is None:
        raise UserError("no recipe was given; `songrank recipes` lists the included recipes")
    else:
        chosen = load_recipe(recipe, changes, view.warn if is_first() else lambda message: None)
        if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) == 0:
            return None, chosen
        resume = output or default_place(recipe, chosen)
        if not RunDirectory(resume).config.is_file():  # nothing had begun before the restart
            return None, chosen
    directory = RunDirectory(resume)
    if directory.notes().get("status") == "finished":
        if not view.quiet and is_first():
            echo(f"{resume} is finished; see `songrank evaluate {resume}`", err=True)
        return resume, None
    begun = directory.recipe()
    if chosen is not None and begun != chosen.model_copy(update={"data": str(Path(chosen.data).absolute())}):
        raise UserError(f"{resume}: contains a run of another recipe; choose another directory with -o")
    return resume, begun


def _report(run: Any, view: Any) -> None:
    """Print the results of a finished run."""
    from songrank.io.json_files import plain
    from songrank.training.run import Run

    if message := run.better_before():
        view.warn(message)
    if view.as_json:
        figures = {split: found.values for split, found in run.results.items()}
        echo(json.dumps(plain({"run": str(run.directory.path), **figures})))
    elif not view.quiet:
        from songrank.analysis.standing import standing

        print_results(run.directory.path, run.results)
        if message := run.result():
            echo(message, err=True)
        if isinstance(run, Run) and (beside := standing(run.dataset, run.recipe, run.results.get("validation"))):
            echo(beside.line(), err=True)
            if message := beside.warning():
                view.warn(message)


def _runner(recipe: "Recipe", speed: str, *, quiet: bool, as_json: bool) -> tuple[Any, Any, dict[str, Any]]:
    """The class of the run, its view and its options."""
    kind: Any
    view: Any
    if recipe.auto is not None:
        from songrank.analysis.auto import AutoRun

        kind, view = AutoRun, AutoView(quiet=quiet, as_json=as_json)
        more: dict[str, Any] = {"say": view.say, "options": {"speed": speed}}
    else:
        from songrank.training.run import Run

        kind, view = Run, TrainingView(quiet=quiet, as_json=as_json)
        more = {"speed": speed, "curves": True}
    more["warn"] = view.warn
    more |= {} if quiet and not as_json else {"observe": view.observe, "tick": view.tick}
    return kind, view, more


def default_place(name: str, recipe: "Recipe") -> Path:
    """The default run directory, for example ``runs/movielens-1m-song-0``."""
    name = Path(name).name.removesuffix(".yaml").removesuffix(".yml")
    return Path("runs") / "-".join(dict.fromkeys((name, recipe.method, str(recipe.seed))))
